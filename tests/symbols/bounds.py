#!/usr/bin/env python3
"""How far a symbol reaches: size 0, assembly code, gaps, overlaps, absurd sizes."""
import sys

import elf
from elf import FUNC, GLOBAL, LOCAL, NOTYPE, OBJECT, Symbol
from suite import answers, case, expect, main, name_at, need, run, symbols

BASE = 0x401000
SECTIONS = ((".text", BASE, 0x400, "x"), (".more", BASE + 0x400, 0x400, "x"), (".data", 0x601000, 0x400, ""))


@case
def gap_between_functions_has_no_name(at):
    """gperftools' documents: time of what has no symbol goes to the symbol before it."""
    path = elf.write(at / "p", [Symbol("a", BASE + 0x100, 0x10), Symbol("b", BASE + 0x200, 0x10)], SECTIONS)
    expect(path, {
        BASE + 0xFF: None, BASE + 0x100: "a", BASE + 0x10F: "a", BASE + 0x110: None, BASE + 0x1FF: None,
        BASE + 0x200: "b", BASE + 0x210: None,
    })


@case
def symbol_without_size_reaches_to_the_next_one(at):
    """bcc#1664, blazesym#692: symbols without a size were dropped, or matched nothing."""
    path = elf.write(at / "p", [Symbol("a", BASE + 0x100), Symbol("b", BASE + 0x180), Symbol("c", BASE + 0x200, 16)], SECTIONS)
    expect(path, {
        BASE + 0xFF: None, BASE + 0x100: "a", BASE + 0x17F: "a", BASE + 0x180: "b", BASE + 0x1FF: "b",
        BASE + 0x20F: "c", BASE + 0x210: None,
    })


@case
def symbol_without_size_ends_with_its_section(at):
    """uftrace#810, DynamoRIO#1337: the last one swallowed all that followed."""
    path = elf.write(at / "p", [Symbol("last", BASE + 0x300)], SECTIONS)
    expect(path, {BASE + 0x3FF: "last", BASE + 0x400: None, BASE + 0x7FF: None})


@case
def symbol_without_size_does_not_reach_into_one_with_size(at):
    """blazesym#324: a label within a function took the rest of it."""
    path = elf.write(
        at / "p",
        [Symbol("whole", BASE + 0x100, 0x100), Symbol("label", BASE + 0x140, 0, NOTYPE, LOCAL), Symbol("entry", BASE + 0x180)],
        SECTIONS,
    )
    expect(path, {BASE + a: "whole" for a in (0x100, 0x140, 0x150, 0x180, 0x1FF)})


@case
def symbol_without_size_goes_on_behind_none(at):
    """What follows a sized function is not what stood before it."""
    path = elf.write(at / "p", [Symbol("loose", BASE + 0x100), Symbol("sized", BASE + 0x140, 0x20)], SECTIONS)
    expect(path, {BASE + 0x13F: "loose", BASE + 0x15F: "sized", BASE + 0x160: None})


@case
def nested_symbol_is_the_inner_one(at):
    path = elf.write(
        at / "p", [Symbol("outer", BASE + 0x100, 0x100), Symbol("inner", BASE + 0x140, 0x20)], SECTIONS
    )
    expect(path, {BASE + 0x13F: "outer", BASE + 0x140: "inner", BASE + 0x15F: "inner", BASE + 0x160: "outer"})


@case
def crossing_symbols_give_the_later_one(at):
    """A search that looks at the nearest start only loses the tail of the first, or the whole second."""
    path = elf.write(at / "p", [Symbol("x", BASE + 0x100, 0x80), Symbol("y", BASE + 0x140, 0x80)], SECTIONS)
    expect(path, {BASE + 0x13F: "x", BASE + 0x140: "y", BASE + 0x1BF: "y", BASE + 0x1C0: None})


@case
def small_symbols_do_not_hide_the_large_one_around_them(at):
    """The nearest start ends early; the one that covers the address began far before."""
    inner = [Symbol(f"s{i}", BASE + 0x110 + 16 * i, 4) for i in range(16)]
    path = elf.write(at / "p", [Symbol("large", BASE + 0x100, 0x200), *inner], SECTIONS)
    expect(path, {BASE + 0x110: "s0", BASE + 0x114: "large", BASE + 0x200 + 3: "s15", BASE + 0x2FF: "large"})


@case
def huge_symbol_ends_with_its_section(at):
    """An address plus a size that wraps around, or covers other sections."""
    for size in (0x1000, 2**31, 2**63, 2**64 - 1, 2**64 - BASE - 0x100, 2**64 - BASE - 0x80):
        path = elf.write(at / "p", [Symbol("huge", BASE + 0x100, size), Symbol("other", BASE + 0x500, 16, section=2)], SECTIONS)
        expect(path, {
            BASE + 0xFF: None, BASE + 0x100: "huge", BASE + 0x3FF: "huge", BASE + 0x400: None, BASE + 0x508: "other",
        })


@case
def what_is_no_code_gives_no_name(at):
    """Data, absolute and undefined symbols, sections and files at the address of code."""
    path = elf.write(
        at / "p",
        [
            Symbol("data", 0x601000, 0x100, OBJECT, section=3), Symbol("table", BASE + 0x100, 0x100, OBJECT),
            Symbol("version", BASE + 0x200, 0x10, NOTYPE, section="abs"), Symbol("needed", BASE + 0x200, 0x10, section=None),
            Symbol("source.c", BASE + 0x200, 0x10, 4, LOCAL), Symbol("", BASE + 0x200, 0x10), Symbol(".L7", BASE + 0x200, 0, NOTYPE, LOCAL),
            Symbol("$x.1", BASE + 0x300, 0, NOTYPE, LOCAL),
        ],
        SECTIONS,
    )
    expect(path, {BASE + 0x108: None, BASE + 0x200: None, BASE + 0x208: None, BASE + 0x308: None})


@case
def section_that_is_not_loaded_has_no_code(at):
    path = elf.write(at / "p", [Symbol("left_over", BASE + 0x500, 0x10, section=2)], (SECTIONS[0], (".old", BASE + 0x400, 0x400, "-")))
    expect(path, {BASE + 0x508: None})


@case
def symbol_outside_its_section_is_left_out(at):
    path = elf.write(at / "p", [Symbol("liar", BASE + 0x500, 0x10, section=1), Symbol("lost", BASE + 0x100, 0x10, section=900)], SECTIONS)
    expect(path, {BASE + 0x508: None, BASE + 0x108: None})


ASSEMBLY = """
	.text
	.globl	plain		# neither type nor size
plain:	nop
	nop
inner:	nop			# a label of its own: local
	ret
	.type	typed, @function
typed:	nop			# without size
	ret
	.globl	sized
	.type	sized, @function
sized:	nop
1:	nop
.Lhidden: ret
	.size	sized, .-sized
	.skip	8, 0xcc
	.globl	last
last:	nop
	ret
	.section .other, "ax"
foreign: nop
	.size foreign, 1
	.skip	7, 0xcc
"""


def assemble(at, *options):
    (at / "code.s").write_text(ASSEMBLY)
    run("gcc", "-shared", "-nostdlib", *options, at / "code.s", "-o", at / "code.so")
    return at / "code.so"


@case
def assembly_code_is_bounded_by_its_neighbours(at):
    path = assemble(at)
    s = symbols(path)
    expect(path, {
        s["plain"]: "plain", s["plain"] + 1: "plain", s["inner"]: "inner", s["inner"] + 1: "inner",
        s["typed"]: "typed", s["typed"] + 1: "typed", s["sized"]: "sized", s["sized"] + 2: "sized",
        s["sized"] + 3: None, s["last"] - 1: None, s["last"] + 1: "last", s["foreign"]: "foreign", s["foreign"] + 1: None,
    })


@case
def assembly_code_with_lines_has_both(at):
    """DWARF of assembly code has lines and no functions: the symbol gives the name."""
    path = assemble(at, "-g")
    s = symbols(path)
    got = answers(path, [s["inner"], s["typed"] + 1, s["last"]])
    text = ASSEMBLY.split("\n")
    for address, name, line in ((s["inner"], "inner", "inner:	nop"), (s["last"], "last", "last:	nop")):
        (frame,) = got[address]
        assert frame.name == name and text[frame.line - 1].startswith(line), f"{name}: {frame}"
        assert frame.file.endswith("code.s"), frame


@case
def symbols_of_code_in_any_number_are_found(at):
    """10,000 functions without size, in a row, in no order."""
    order = [(i * 7919) % 10000 for i in range(10000)]
    path = elf.write(at / "p", [Symbol(f"f{i}", BASE + 8 * i) for i in order], ((".text", BASE, 80000, "x"),))
    expect(path, {BASE + 8 * i + i % 8: f"f{i}" for i in range(0, 10000, 97)})


if __name__ == "__main__":
    sys.exit(main())
