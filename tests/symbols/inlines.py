#!/usr/bin/env python3
"""Inlined call chains with the lines of their calls, at every instruction, beside llvm-symbolizer and by construction."""
import re
import sys

import elf
from suite import answers, case, frames_of, main, need, run, symbols

# Lines are numbers in the text: what is checked by construction.
MAIN = """\
#include "deep.h"
static inline __attribute__((always_inline)) int middle(int n)
{
	return deep(n + 1) * 3; /* line 4 */
}
static inline __attribute__((always_inline)) int upper(int n)
{
	int a = middle(n); /* line 8 */
	return a + middle(a + 2); /* line 9 */
}
__attribute__((noinline)) int outer(int n)
{
	for (int i = 0; i < n; i++)
		n += upper(n ^ i); /* line 14 */
	return n;
}
int other(int n);
int both(int n)
{
	return outer(n) + other(n);
}
"""
HEADER = """\
int sink(int);
static inline __attribute__((always_inline)) int deep(int n)
{
	return sink(n) - 7; /* line 4 */
}
"""
OTHER = """\
#include "deep.h"
__attribute__((noinline)) int sink(int n) { __asm__ volatile("" : "+r"(n)); return n; }
int once(int n) { return deep(n) + 1; }
__attribute__((noinline)) int other(int n)
{
	if (n > 3) {
		int k = deep(n); /* line 7: in a block */
		return deep(k + n) + once(k); /* line 8 */
	}
	return n;
}
"""


def build(at, compiler, *options):
    need(compiler)
    (at / "main.c").write_text(MAIN)
    (at / "deep.h").write_text(HEADER)
    (at / "other.c").write_text(OTHER)
    run(compiler, "-O2", "-g", "-fPIC", "-shared", "-nostdlib", "main.c", "other.c", "-o", "lib.so", *options, cwd=at)
    return at / "lib.so"


def instructions(path):
    listing = run("objdump", "-d", "--no-show-raw-insn", "-j", ".text", path)
    return [int(m, 16) for m in re.findall(r"^ +([0-9a-f]+):\t", listing, re.M)]


def by_llvm(path, addresses):
    """address -> list of (name, file, line), innermost first."""
    need("llvm-symbolizer")
    text = run("llvm-symbolizer", "--inlines", "--obj", path, input="".join(f"{a:#x}\n" for a in addresses))
    blocks = text.strip().split("\n\n")
    assert len(blocks) == len(addresses)
    found = {}
    for a, block in zip(addresses, blocks):
        lines = block.split("\n")
        found[a] = [(n, p.rsplit(":", 2)[0].split("/")[-1], int(p.rsplit(":", 2)[1])) for n, p in zip(lines[::2], lines[1::2])]
    return found


def flat(frames):
    return [(f.name, (f.file or "??").split("/")[-1], f.line) for f in frames]


def agrees_with_llvm(path, addresses=None):
    addresses = addresses or instructions(path)
    got, wanted = answers(path, addresses), by_llvm(path, addresses)
    wanted = {a: w if w[0][0] != "??" else [] for a, w in wanted.items()}  # what only fills up has no name
    wrong = [f"{a:#x}: {flat(got[a])}, not {wanted[a]}" for a in addresses if flat(got[a]) != wanted[a]]
    assert not wrong, f"{len(wrong)} of {len(addresses)} differ\n" + "\n".join(wrong[:10])


def chain_is_there(path):
    """At a call of sink() in outer(): four frames, with the lines of the calls."""
    start = symbols(path)["outer"]
    chains = {tuple(flat(f)) for f in answers(path, instructions(path)).values()}
    for line in (8, 9):
        chain = (("deep", "deep.h", 4), ("middle", "main.c", 4), ("upper", "main.c", line), ("outer", "main.c", 14))
        assert chain in chains, f"not found: {chain}"
    for f in answers(path, [start])[start]:
        assert not f.inlined or f.name in ("deep", "middle", "upper"), f


def each(name, compiler, *options, lld=False):
    def check(at):
        if lld:
            need("ld.lld")
        path = build(at, compiler, *options)
        chain_is_there(path)
        agrees_with_llvm(path)

    check.__name__ = name
    case(check)


each("gcc_dwarf_5", "gcc", "-gdwarf-5")
each("gcc_dwarf_4", "gcc", "-gdwarf-4")
each("gcc_dwarf_3", "gcc", "-gdwarf-3")
each("gcc_with_compressed_dwarf", "gcc", "-gz")
each("gcc_with_types_in_units_of_their_own", "gcc", "-fdebug-types-section")
each("gcc_with_a_section_for_each_function", "gcc", "-ffunction-sections", "-Wl,--gc-sections")
each("gcc_with_lld", "gcc", "-fuse-ld=lld", lld=True)
each("gcc_with_lto", "gcc", "-flto", "-fno-use-linker-plugin")
each("clang_dwarf_5", "clang", "-gdwarf-5", "-fno-integrated-cc1")
each("clang_dwarf_4", "clang", "-gdwarf-4")
each("clang_with_lto", "clang", "-flto", "-fuse-ld=lld", lld=True)
each("clang_with_thin_lto", "clang", "-flto=thin", "-fuse-ld=lld", lld=True)


@case
def clang_without_names_in_its_line_tables_only_still_has_the_chain(at):
    """-g1: inlined functions without types and variables."""
    path = build(at, "clang", "-g1")
    chain_is_there(path)
    agrees_with_llvm(path)


DROPPED = """
__attribute__((visibility("hidden"))) void dropped(void)
{
%s}
int stays(int n)
{
	int k = n * 3;
	__asm__ volatile("" : "+r"(k));
	k += 4;
	__asm__ volatile("" : "+r"(k));
	return k * 5;
}
"""


def large_dropped_function(at, *options):
    (at / "source.c").write_text(DROPPED % ("\t__asm__ volatile(\".skip 1, 0x90\");\n" * 6000))
    run(
        "gcc", "-O1", "-g", "-fPIC", "-shared", "-nostdlib", "-ffunction-sections", "-Wl,--gc-sections",
        at / "source.c", "-o", at / "lib.so", *options,
    )
    path = at / "lib.so"
    first = next(s.vaddr for s in elf.File(path).code())
    assert first < 6000 and symbols(path)["stays"] < 6000, "the dropped function does not reach to the text"
    return path


@case
def lines_of_a_large_function_that_was_dropped_are_not_taken(at):
    """
    Its rows lie at address 0 and up, between those of the code that is there. Rust drops sections by
    default. Each byte is looked at: a caller's is the one before its return address.
    """
    need("ld.lld")
    for options in ((), ("-fuse-ld=lld",), ("-gdwarf-4",), ("-gdwarf-2",), ("-gz",), ("-Wl,-z,noseparate-code",)):
        path = large_dropped_function(at, *options)
        start = symbols(path)["stays"]
        agrees_with_llvm(path, range(start, start + 9))


TWINS = """
int sink(int);
__attribute__((noinline)) int first_twin(int n)
{
	n = sink(n + 3); /* line 5 */
	return n * 7; /* line 6 */
}
__attribute__((noinline)) int second_twin(int n)
{
	n = sink(n + 3);
	return n * 7;
}
__attribute__((noinline)) int sink(int n) { __asm__ volatile("" : "+r"(n)); return n ^ 5; }
int (*volatile table[])(int) = { first_twin, second_twin };
"""


@case
def functions_that_the_linker_made_one_have_the_lines_of_the_one_that_is_named(at):
    """lld and gold, --icf: the name of one with the lines of the other."""
    need("ld.lld")
    for compiler in ("gcc", "clang"):
        need(compiler)
        (at / "twins.c").write_text(TWINS)
        run(
            compiler, "-O1", "-g", "-fPIC", "-shared", "-nostdlib", "-ffunction-sections", "-fvisibility=hidden", "-fuse-ld=lld",
            "-Wl,--icf=all", at / "twins.c", "-o", at / "lib.so",
        )
        start = symbols(at / "lib.so")["first_twin"]
        assert symbols(at / "lib.so")["second_twin"] == start, "they were not made one"
        got = answers(at / "lib.so", range(start, start + 12))
        lines = {"first_twin": range(3, 8), "second_twin": range(8, 13)}
        for address, (frame,) in got.items():
            assert frame.line in lines[frame.name], f"{address:#x}: {frame}"
        assert len({f[0].line for f in got.values()}) > 1, got


@case
def damaged_line_programs_are_harmless(at):
    """Each byte of the header, and some behind it, in turn."""
    path = large_dropped_function(at)
    listing = run("readelf", "-SW", path)
    start, size = (int(n, 16) for n in re.search(r"\.debug_line +PROGBITS +\S+ (\S+) (\S+)", listing).groups())
    data, address = path.read_bytes(), symbols(path)["stays"]
    offset = elf.File(path).offset(address)
    for i in [*range(0, 96), *range(96, size, size // 40)]:
        for value in (0, 0x7F, 0xFF):
            changed = bytearray(data)
            changed[start + i] = value
            (at / "bad.so").write_bytes(changed)
            frames_of(at / "bad.so", [offset, offset + 3])


if __name__ == "__main__":
    sys.exit(main())
