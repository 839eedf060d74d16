#!/usr/bin/env python3
"""Names written to harm: they cost their own length and nothing else."""
import sys
import time

import elf
from elf import FUNC, GLOBAL, LOCAL, Symbol
from suite import answers, case, expect, frames_of, main

BASE = 0x401000
LIMIT = (64 << 10) + 3  # KP_NAME_MAX and "..."


def named(at, names):
    """The frames of functions with these names."""
    path = elf.write(at / "p", [Symbol(n, BASE + 16 * i, 16) for i, n in enumerate(names)], ((".text", BASE, max(4096, 16 * len(names)), "x"),))
    got = answers(path, [BASE + 16 * i for i in range(len(names))])
    return [got[BASE + 16 * i][-1] for i in range(len(names))]


def check_clean(frames):
    for f in frames:
        for text in (f.name, f.system):
            assert len(text.encode()) <= LIMIT, f"{len(text)} characters"
            assert not any(ord(c) < 0x20 or ord(c) == 0x7F for c in text), repr(text[:80])


@case
def control_characters_are_written_out(at):
    names = [bytes([c]) + b"x" for c in range(1, 32)] + [b"a\nb", b"\x1b[31mred", b"tab\tin", b"\x7f", b"\r\n"]
    frames = named(at, names)
    check_clean(frames)
    assert frames[31].name == "a\\x0ab" and frames[32].name == "\\x1b[31mred", [f.name for f in frames[31:]]


@case
def bytes_that_are_not_utf8_are_written_out_and_utf8_is_kept(at):
    frames = named(at, [b"caf\xc3\xa9", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"cut\xe2\x82"])
    check_clean(frames)
    assert [f.name for f in frames] == [
        "café", "\\xff\\xfe", "\\xc0\\x80", "\\xed\\xa0\\x80", "\\xf4\\x90\\x80\\x80", "cut\\xe2\\x82",
    ], frames


@case
def megabyte_name_is_cut(at):
    frames = named(at, [b"m" * (1 << 20), b"\x01" * (1 << 20), b"_Z" + b"9" * (1 << 20), b"_ZN" + b"1a" * (1 << 19) + b"Ev", b"short"])
    check_clean(frames)
    assert frames[-1].name == "short" and frames[0].name.endswith("m...")


DEEP = (
    [b"_Z" + b"P" * n + b"i" for n in (1000, 10000, 16000)]
    + [b"_Z1f" + p * n + b"i" for p in (b"P", b"PF", b"R", b"K", b"A1_", b"M1a") for n in (2000, 15000 // len(p))]
    + [b"_Z1f" + b"N1a" * 5000 + b"E" * 5000, b"_Z1fI" + b"1aI" * 4000 + b"i" + b"E" * 4001 + b"vv"]
    + [b"_Z1fIX" + b"cl" * 5000 + b"E" * 5000, b"_Z1fIL" + b"_Z" * 5000, b"_ZTv" * 4000, b"_ZGV" * 4000]
    + [b"_R" + b"N" * 8000, b"_RI" * 5000, b"_RINvC1a1b" + b"R" * 8000 + b"uE", b"_RNvB_1a", b"_RNvB0_1a", b"_RINvC1a1bFG_" + b"FG_" * 4000 + b"EuE"]
    + [b"_D" + b"1a" * 4000, b"_D1fF" + b"A" * 8000 + b"iZv", b"_D1f" + b"__T" * 4000, b"_D1fF" + b"PFF" * 3000, b"_D1f" + b"S1a" * 4000, b"_D1fFC" + b"1aFC" * 2500]
)


@case
def deep_recursion_ends(at):
    check_clean(named(at, DEEP))


def doubling_cxx(times):
    """Each argument is a pair of the one before."""
    text = "_Z1f1aI1bS_E"
    for i in range(times):
        s = "S" + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_"
        text += f"1pI{s}{s}E"
    return text.encode()


def doubling_rust(times):
    """v0: a tuple of two of the type before, by reference back."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def number(n):
        n -= 1
        text = ""
        while True:
            text = digits[n % 62] + text
            n //= 62
            if not n:
                return text + "_"

    body = "INvC1a1b"
    last = len(body)
    body += "TuuE"
    for _ in range(times):
        here = len(body)
        body += f"TB{number(last)}B{number(last)}E"
        last = here
    return ("_R" + body + "E").encode()


def doubling_d(times):
    """An associative array of two of the type before, by reference back."""

    def back(distance):
        text = ""
        while distance >= 26:
            text = chr(ord("A") + distance % 26) + text if text else chr(ord("a") + distance % 26)
            distance //= 26
        return "Q" + (chr(ord("A") + distance) + text if text else chr(ord("a") + distance))

    body = "_D1fF"
    last = len(body)
    body += "Ai"
    for _ in range(times):
        here = len(body)
        body += "H" + back(here + 1 - last)
        body += back(len(body) - last)
        last = here
    return (body + "Zv").encode()


@case
def names_that_double_end(at):
    """A hundred bytes that stand for gigabytes."""
    frames = named(at, [make(n) for make in (doubling_cxx, doubling_rust, doubling_d) for n in (3, 20, 30)])
    check_clean(frames)


@case
def aliases_that_share_a_megabyte_end(at):
    """40,000 symbols of one address, each named by the rest of one string: sorting them may not read it all each time."""
    count = 40000
    text = b"x" * (1 << 20)
    symbols = [Symbol(text, BASE, 16)]
    for i in range(count):
        symbol = Symbol("", BASE, 16)
        symbol.name = 1 + i  # an offset into the strings
        symbols.append(symbol)
    path = elf.write(at / "p", symbols)
    check_clean(answers(path, [BASE])[BASE])


@case
def strings_that_do_not_end_are_no_names(at):
    """Names at the end of the table and behind it."""
    path = elf.write(at / "p", [Symbol("good", BASE, 16), Symbol("bad", BASE + 16, 16)])
    data = path.read_bytes()
    at_name = data.index(b"\0good\0bad\0")
    for old, new in ((at_name + 9, b"!"), (at_name, b"!")):
        changed = bytearray(data)
        changed[old : old + 1] = new
        path.write_bytes(changed)
        frames_of(path, [elf.File(path).offset(BASE), elf.File(path).offset(BASE + 16)])


if __name__ == "__main__":
    sys.exit(main())
