#!/usr/bin/env python3
"""Which of several names wins, and what becomes of names that say more than a function."""
import sys

import elf
from elf import FUNC, GLOBAL, IFUNC, LOCAL, NOTYPE, WEAK, Symbol
from suite import answers, case, expect, main, need, run, symbols

BASE = 0x401000


def build(at, source, *options, compiler="gcc", suffix="c", name="lib.so"):
    need(compiler)
    (at / f"source.{suffix}").write_text(source)
    run(compiler, "-O2", "-fPIC", at / f"source.{suffix}", "-o", at / name, *options)
    return at / name


def winner(at, *candidates):
    """Of symbols at one address, in both orders of the table: name, type, binding."""
    for order in (candidates, candidates[::-1]):
        path = elf.write(at / "p", [Symbol(n, BASE + 64, 32, kind, bind) for n, kind, bind in order])
        expect(path, {BASE + 64: candidates[0][0], BASE + 95: candidates[0][0]})


@case
def global_goes_before_weak_and_weak_before_local(at):
    winner(at, ("a_long_global_name", FUNC, GLOBAL), ("weak", FUNC, WEAK), ("loc", FUNC, LOCAL))
    winner(at, ("a_weak_one", FUNC, WEAK), ("local", FUNC, LOCAL))


@case
def function_goes_before_label(at):
    winner(at, ("local_function", FUNC, LOCAL), ("label", NOTYPE, GLOBAL))


@case
def shorter_name_goes_before_longer_and_then_the_alphabet_decides(at):
    winner(at, ("poll", FUNC, GLOBAL), ("__poll", FUNC, GLOBAL), ("poll_compat", FUNC, GLOBAL))
    winner(at, ("abc", FUNC, GLOBAL), ("abd", FUNC, GLOBAL), ("xyz", FUNC, GLOBAL))


@case
def name_with_a_size_goes_before_one_without(at):
    path = elf.write(at / "p", [Symbol("g", BASE, 0, FUNC, GLOBAL), Symbol("sized", BASE, 16, FUNC, LOCAL)])
    expect(path, {BASE: "sized", BASE + 15: "sized"})


@case
def constructors_of_one_body_are_named_once(at):
    """C1 and C2 of a class are one function; both are shown alike."""
    path = build(at, "struct A { A(int); int x; }; A::A(int n) { x = n; }", "-shared", compiler="g++", suffix="cc")
    s = symbols(path)
    assert s["_ZN1AC1Ei"] == s["_ZN1AC2Ei"]
    expect(path, {s["_ZN1AC1Ei"]: "A::A(int)"})


PARTS = """
extern "C" __attribute__((cold)) void say(const char *, int);
namespace shop {
static __attribute__((noinline)) long slow(long n)
{
	if (__builtin_expect(n < 0, 0)) {
		say("negative", 1); say("very", 2); __builtin_trap();
	}
	return n * n;
}
long price(long n) { return slow(n) + slow(n + 1); }
}
"""


@case
def cold_part_is_shown_as_a_part_of_its_function(at):
    """FlameGraph and others print ".cold" names mangled, or drop what they cannot demangle."""
    path = build(at, PARTS, "-shared", "-Wl,--unresolved-symbols=ignore-all", compiler="g++", suffix="cc")
    s = symbols(path)
    cold = [n for n in s if n.endswith(".cold")]
    assert cold, "this compiler splits nothing off"
    expect(path, {s[n]: "shop::slow(long) [clone .cold]" for n in cold})


@case
def clones_keep_what_tells_them_apart(at):
    names = {
        "_ZN4shop4slowEl.part.0": "shop::slow(long) [clone .part.0]",
        "_ZN4shop4slowEl.constprop.0.isra.0": "shop::slow(long) [clone .constprop.0] [clone .isra.0]",
        "_ZN4shop4slowEl.cold": "shop::slow(long) [clone .cold]",
        "_ZN4shop4slowEl.avx2.0": "shop::slow(long) [clone .avx2.0]",
        "_ZN4shop4slowEl.lto_priv.12": "shop::slow(long) [clone .lto_priv.12]",
        "_ZN4shop4slowEl.llvm.1234567": "shop::slow(long) [clone .llvm.1234567]",
        "_ZN4shop4slowEl.__uniq.3456": "shop::slow(long) [clone .__uniq.3456]",
        "slow.part.0": "slow.part.0", "slow.cold": "slow.cold", "slow.constprop.1": "slow.constprop.1",
        "memcpy.localalias": "memcpy.localalias", "slow.llvm.1234": "slow.llvm.1234",
    }
    path = elf.write(at / "p", [Symbol(n, BASE + 32 * i, 32) for i, n in enumerate(names)])
    expect(path, {BASE + 32 * i: shown for i, shown in enumerate(names.values())})


CHOSEN = """
static int fast_way(int n) { return n + 1; }
static int slow_way(int n) { return n + 2; }
static void *pick(void) { return __builtin_cpu_init(), __builtin_cpu_supports("avx2") ? fast_way : slow_way; }
int chosen(int) __attribute__((ifunc("pick")));
int uses(int n) { return chosen(n); }
"""


@case
def function_chosen_at_the_start_and_its_candidates_have_their_own_names(at):
    """An IFUNC symbol stands where the resolver is: what it picks is another function."""
    for debug in ((), ("-g",)):
        path = build(at, CHOSEN, "-shared", *debug)
        s = symbols(path)
        assert s["chosen"] == s["pick"]
        expect(path, {s["fast_way"]: "fast_way", s["slow_way"]: "slow_way"})
    expect(elf.write(at / "p", [Symbol("chosen", BASE, 16, IFUNC), Symbol("pick", BASE, 16, FUNC, LOCAL)]), {BASE: "chosen"})


VERSIONED = """
int old_sum(int n) { return n + 1; }
int new_sum(int n) { return n + 2; }
__asm__(".symver old_sum, sum@V1");
__asm__(".symver new_sum, sum@@V2");
"""


@case
def version_is_left_out_of_the_name(at):
    """memcpy@@GLIBC_2.14 and memcpy are one function to who reads a profile."""
    (at / "map").write_text("V1 { local: old_sum; new_sum; }; V2 { } V1;")
    path = build(at, VERSIONED, "-shared", f"-Wl,--version-script={at / 'map'}")
    s = symbols(path)
    whole = {s["old_sum"]: "sum", s["new_sum"]: "sum"}
    expect(path, whole)
    run("strip", path)
    expect(path, whole)
    path = elf.write(at / "p", [Symbol("memcpy@@GLIBC_2.14", BASE, 16), Symbol("_ZN3foo3barEv@V1", BASE + 16, 16)])
    got = answers(path, [BASE, BASE + 16])
    assert got[BASE][0].name == "memcpy" and got[BASE][0].system == "memcpy@@GLIBC_2.14", got
    assert got[BASE + 16][0].name == "foo::bar()", got


CALLS = """
int puts(const char *); double strtod(const char *, char **);
int calls(const char *s) { return puts(s) + (int)strtod(s, 0) + 1; }
"""


@case
def stubs_are_named_after_what_they_jump_to(at):
    """blazesym and perf give the stub to the function before .plt, or to none."""
    for options in (("-Wl,-z,lazy",), ("-Wl,-z,now",), ("-Wl,-z,lazy", "-fcf-protection=full"), ("-fuse-ld=lld",)):
        if "-fuse-ld=lld" in options:
            need("ld.lld")
        for small in (False, True):
            path = build(at, CALLS, "-shared", *options)
            if small:
                run("strip", path)
            listing = run("objdump", "-d", "--no-show-raw-insn", path)
            stubs = {}
            for line in listing.splitlines():
                if line.endswith("@plt>:"):
                    stubs[int(line.split()[0], 16)] = line.split("<")[1][:-2]
            wanted = {a: n for a, n in stubs.items() if n in ("puts@plt", "strtod@plt")}
            if len(wanted) == 2:  # objdump does not know all of them
                expect(path, wanted)
            else:
                assert "lld" in options[0] or "full" in options[-1], f"{options}: {stubs}"


@case
def dynamic_and_full_table_agree(at):
    """A stripped library names what it exports as the whole one does."""
    path = build(at, CALLS + "int other(int n) { return n * n; }", "-shared")
    s = symbols(path)
    run("strip", path, "-o", at / "small.so")
    for file in (path, at / "small.so"):
        expect(file, {s["calls"]: "calls", s["other"]: "other"})


if __name__ == "__main__":
    sys.exit(main())
