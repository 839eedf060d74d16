#!/usr/bin/env python3
"""
Names that are written to harm, in what users read: reports.py FRAMES PROFILE KITPROF. A raw profile
of a program with such names is rendered; each report has the lines and fields that it has to have.
"""
import gzip
import re
import sys

import elf
from elf import Symbol
from suite import case, main, run

BASE = 0x401000
HARM = [
    b"a;b", b"a\nb 7", b"name 12", b" leading", b"trailing ", b"", b"\x1b[2J", b"\xff\xfe", b"x" * (1 << 20), b";;;;", b"\t", b"%s%n", b"<script>",
    b"a\\;b", b'"quoted"', b"# comment", b"caf\xc3\xa9", b"--option", b"../../etc", b"\r", b"_Z" + b"P" * 15000 + b"i", b"[unknown]", b"\xe2\x80\xa8",
]


def report(at, form):
    """The bytes of one report, of as many samples as there are names; each is called by "main"."""
    names = [b"main"] + [n for n in HARM if n]
    path = elf.write(at / "p", [Symbol(n, BASE + 16 * i, 16) for i, n in enumerate(names)])
    file = elf.File(path)
    run(sys.argv[2], path, at / "raw.kitprof", *[f"{file.offset(BASE + 16 * i):x}" for i in range(len(names))])
    run(sys.argv[3], "report", at / "raw.kitprof", "--no-folded", "--no-flat", "-f", f"{form}:{at / 'out'}")
    return names, (at / "out").read_bytes()


@case
def folded_stacks_keep_two_frames_and_a_number_a_line(at):
    """Names with ";" become stacks of their own, names with line ends become lines."""
    names, data = report(at, "folded")
    lines = data.decode().removesuffix("\n").split("\n")
    assert len(lines) == len(names), f"{len(lines)} lines of {len(names)} samples"
    total = 0
    for line in lines:
        found = re.fullmatch(r"prog;main;([^;\x00-\x1f\x7f]+) (\d+)", line)
        assert found, repr(line[:200])
        total += int(found[2])
    assert total == len(names), total


@case
def flat_table_keeps_a_line_for_each_function(at):
    names, data = report(at, "flat")
    text = data.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), "control characters"
    rows = [line for line in text.split("\n") if re.match(r" *\d", line)]
    assert len(rows) == len(names), f"{len(rows)} rows of {len(names)} functions\n{text[:2000]}"


@case
def pprof_has_every_name_as_utf8(at):
    names, data = report(at, "pprof")
    whole = gzip.decompress(data)
    for text in (b"a;b", b"a\\x0ab 7", b"\\x1b[2J", b"\\xff\\xfe", "café".encode()):
        assert text in whole, text
    assert b"\x1b" + b"[2J" not in whole


if __name__ == "__main__":
    sys.exit(main())
