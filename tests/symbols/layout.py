#!/usr/bin/env python3
"""Layouts of files: from an offset in the file to the right address, whatever linker laid it out."""
import struct
import sys

import elf
from suite import Skip, answers, case, expect, frames_of, main, name_at, need, run, symbols

SOURCE = """
__attribute__((noinline)) int first(int n) { return n * 3; }
__attribute__((noinline)) int second(int n) { return first(n) + 4; }
__attribute__((noinline, section(".apart"))) int apart(int n) { return second(n) + 5; }
"""
NAMES = ("first", "second", "apart")


def build(at, *options, compiler="gcc", source=SOURCE, name="lib.so"):
    need(compiler)
    text = at / "source.c"
    text.write_text(source)
    run(compiler, "-O1", "-fPIC", "-shared", "-nostdlib", text, "-o", at / name, *options)
    return at / name


def has_its_names(path, wanted=NAMES):
    """Each function, at its start and one byte on."""
    where = symbols(path)
    expect(path, {where[n] + i: n for n in wanted for i in (0, 1)})


@case
def offset_and_address_may_differ_as_lld_makes_them(at):
    """async-profiler#689: symbols were shifted by p_vaddr - p_offset of the text segment."""
    need("ld.lld")
    path = build(at, "-fuse-ld=lld")
    assert any(s.offset != s.vaddr for s in elf.File(path).code()), "lld has changed: no difference"
    has_its_names(path)


@case
def lld_may_separate_code(at):
    need("ld.lld")
    has_its_names(build(at, "-fuse-ld=lld", "-Wl,-z,separate-code"))


@case
def text_may_be_in_the_first_segment(at):
    path = build(at, "-Wl,-z,noseparate-code")
    assert elf.File(path).loads()[0].executable
    has_its_names(path)


@case
def text_may_be_behind_the_first_segment(at):
    """gperftools#657: the base was taken from the first segment."""
    path = build(at, "-Wl,-z,separate-code")
    assert not elf.File(path).loads()[0].executable
    has_its_names(path)


@case
def shared_object_may_have_a_base_of_its_own(at):
    """What prelink leaves: pprof#119 and others subtracted the wrong base."""
    path = build(at, "-Wl,-Ttext-segment=0x3f00000000")
    assert elf.File(path).loads()[0].vaddr == 0x3F00000000
    has_its_names(path)


@case
def base_may_lie_in_the_upper_half(at):
    """Addresses that are negative when taken for signed."""
    has_its_names(build(at, "-Wl,-Ttext-segment=0xffffff0000000000"))


@case
def program_of_fixed_addresses_is_named(at):
    for more in ((), ("-Wl,-Ttext-segment=0x7000000",)):
        source = SOURCE + "void _start(void) { apart(1); for (;;); }"
        text = at / "source.c"
        text.write_text(source)
        run("gcc", "-O1", "-static", "-no-pie", "-fno-pie", "-nostdlib", text, "-o", at / "prog", *more)
        has_its_names(at / "prog", (*NAMES, "_start"))


@case
def text_may_be_split_into_two_segments(at):
    """Offsets of both have to find their own; only the first was looked at."""
    path = build(at, "-Wl,--section-start=.apart=0x900000")
    assert len(elf.File(path).code()) == 2
    has_its_names(path)


@case
def split_text_may_lie_in_descending_order(at):
    """The address falls where the offset rises."""
    path = elf.write(
        at / "prog", [elf.Symbol("high", 0x900100, 16, section=1), elf.Symbol("low", 0x401100, 16, section=2)],
        ((".text", 0x900000, 0x1000, "x"), (".cold", 0x401000, 0x1000, "x")),
    )
    expect(path, {0x900108: "high", 0x401108: "low"})


@case
def data_at_the_same_pages_does_not_take_over(at):
    """lld puts the end of one segment and the start of the next into one page of the file."""
    need("ld.lld")
    path = build(at, "-fuse-ld=lld", source=SOURCE + "int data[900] = {1}; const int table[900] = {1};")
    has_its_names(path)


def stripped(at, *options):
    path = build(at, *options)
    run("strip", path, "-o", at / "stripped.so")
    return path, at / "stripped.so"


def bare(at, *options):
    """Exported symbols only, and no section header. Both files."""
    whole, small = stripped(at, *options)
    return whole, elf.without_section_headers(small, at / "bare.so")


@case
def file_without_section_headers_is_named_by_what_it_exports(at):
    """sstrip, packers and images of memory: only PT_DYNAMIC is left to find .dynsym by."""
    for hash_style in ("gnu", "sysv", "both"):
        whole, path = bare(at, f"-Wl,--hash-style={hash_style}")
        where = symbols(whole)
        expect(path, {where[n] + 1: n for n in NAMES})


@case
def file_without_section_headers_may_have_a_base_and_come_from_lld(at):
    need("ld.lld")
    whole, path = bare(at, "-fuse-ld=lld")
    expect(path, {symbols(whole)[n] + 1: n for n in NAMES})
    whole, path = bare(at, "-Wl,-Ttext-segment=0x3f00000000", "-Wl,--section-start=.apart=0x3f00900000")
    expect(path, {symbols(whole)[n] + 1: n for n in NAMES})


@case
def truncated_file_gives_what_is_left_or_nothing(at):
    """Section headers are at the end: a copy that broke off has none, and symbols of a lost part are not read."""
    whole, small = stripped(at)
    where = symbols(whole)
    data = small.read_bytes()
    offsets = {elf.File(small).offset(where[n]): n for n in NAMES}
    for keep in [*range(0, 512, 24), *range(512, len(data), 256), len(data) - 1]:
        path = at / "cut.so"
        path.write_bytes(data[:keep])
        for offset, frames in frames_of(path, offsets).frames.items():
            assert not frames or frames[-1].name == offsets[offset], f"{keep} bytes: {frames}"
    path.write_bytes(data[: elf.File(small).shoff])
    assert {f[-1].name for f in frames_of(path, offsets).frames.values() if f} == set(NAMES), "exported names are lost"


@case
def truncated_file_is_said_to_be_damaged(at):
    path = build(at, "-g")
    (at / "cut.so").write_bytes(path.read_bytes()[:100])
    assert frames_of(at / "cut.so", [0x1000]).note, "nothing is said"
    (at / "empty").write_bytes(b"")
    assert "not an ELF file" in frames_of(at / "empty", [0]).note


@case
def hostile_dynamic_tables_are_harmless(at):
    """Each entry of PT_DYNAMIC in turn points to nowhere, to the end, and to itself."""
    _, path = bare(at)
    data, file = path.read_bytes(), elf.File(path)
    dynamic = next(s for s in file.segments if s.type == 2)
    offsets = [s.offset + 0x10 for s in file.code()]
    for i in range(dynamic.filesz // 16):
        for value in (0, 1, len(data) - 1, len(data), dynamic.vaddr, 2**32, 2**63, 2**64 - 1):
            changed = bytearray(data)
            struct.pack_into("<Q", changed, dynamic.offset + 16 * i + 8, value)
            (at / "bad.so").write_bytes(changed)
            frames_of(at / "bad.so", offsets)


@case
def image_of_other_byte_order_or_size_is_refused_or_read(at):
    path = build(at)
    for at_byte, value in ((4, 1), (5, 2), (5, 0), (4, 9)):
        changed = bytearray(path.read_bytes())
        changed[at_byte] = value
        (at / "odd.so").write_bytes(changed)
        frames_of(at / "odd.so", [0x1000, 0x1010])


if __name__ == "__main__":
    sys.exit(main())
