#!/usr/bin/env python3
"""Names for many addresses: symbols.py BUILD [--rounds N] [--modules LIST] [--pcs N]

N distinct addresses, drawn at random from a module's code, are named by kitprof's symbolizer and by
other tools. "again": with what the run before has left in the cache. Wall time of the whole process, which reads the addresses and prints names (medians),
and the most memory that it and its children had at once (for several processes: the sum of what
each had at most). Tools that are slow get fewer addresses.

Of as many addresses as both know something of:

    spelling  the innermost function bears the same name, written otherwise: with or without what the
              compiler appended to a clone, a return type, a space between two brackets
    alias     the symbol table has both names for the same address
    other     another function, unexplained; the first ones are shown with --show 1
    lines     another FILE:LINE of the innermost function; a file counts by its last name
    chain     another number of functions, inlined ones and all

perf script names what it recorded itself: its figure is addresses a second of a recording.
"""
import bisect
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import bench

MODULES = ["libc", "node", "libpython", "libLLVM", "made"]
FEW = 500  # for tools that take milliseconds for each address


class Module:
    def __init__(self, name, path, pcs):
        self.name, self.path = name, os.path.realpath(path)
        start, size = text_of(self.path)
        count = min(pcs, size // 2)
        self.pcs = random.Random(1).sample(range(start, start + size), count)

    def addresses(self, count=None):
        return "".join(f"{pc:#x}\n" for pc in self.pcs[:count])


def text_of(path):
    for line in bench.command("readelf", "-SW", path).splitlines():
        part = re.sub(r"^\s*\[\s*\d+\]", "", line).split()
        if part[:1] == [".text"]:
            return int(part[2], 16), int(part[4], 16)
    raise bench.Harm(f"{path}: no .text")


# ---- modules ----

def wait_for(compilers):
    for compiler in compilers:
        if compiler.wait():
            raise bench.Harm(f"{compiler.args}: status {compiler.returncode}")


def make_program(folder):
    """A C++ program with much DWARF, for machines that have no other: containers, sorting and
    strings of many types, in many units."""
    units = 10
    source = """
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>
namespace unit_%(n)d {
template <int N> struct key { int v[N %% 7 + 1]; bool operator<(const key &o) const { return v[0] < o.v[0]; } };
template <int N> int work(int seed) {
	std::map<key<N>, std::string> m; std::vector<key<N>> v; std::unordered_map<int, key<N>> u;
	for (int i = 0; i < seed; i++) { key<N> k{}; k.v[0] = i * 7919 %% 101; v.push_back(k);
		m[k] += std::to_string(i); u.emplace(i, k); }
	std::sort(v.begin(), v.end()); std::stable_sort(v.begin(), v.end());
	return (int)m.size() + v[0].v[0] + (int)u.size();
}
template <int N> struct all { static int run(int s) { return work<N>(s) + all<N - 1>::run(s); } };
template <> struct all<%(low)d> { static int run(int) { return 0; } };
}
int run_%(n)d(int s) { return unit_%(n)d::all<%(high)d>::run(s); }
"""
    objects, compilers = [], []
    for n in range(units):
        path = folder / f"unit{n}.cc"
        path.write_text(source % {"n": n, "low": n * 24, "high": n * 24 + 24})
        objects.append(folder / f"unit{n}.o")
        compilers.append(subprocess.Popen(["g++", "-g", "-O2", "-c", path, "-o", objects[-1]]))
        if n % os.cpu_count() == os.cpu_count() - 1:
            wait_for(compilers)
    wait_for(compilers)
    main = folder / "main.cc"
    main.write_text("".join(f"int run_{n}(int);\n" for n in range(units)) +
                    "int main(int c, char **) { return " +
                    " + ".join(f"run_{n}(c)" for n in range(units)) + "; }\n")
    bench.command("g++", "-g", "-O2", main, *objects, "-o", folder / "made")
    return folder / "made"


def newest(pattern, root="/usr/lib"):
    found = sorted(pathlib.Path(root).glob(pattern))
    return found[-1] if found else None


def loaded_by(program, word):
    """The library of that name that a program loads, with its DWARF, if it has any."""
    path = shutil.which(program)
    if not path:
        return None
    code = "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('LDLIBRARY'))"
    folder, library = bench.command(path, "-c", code).split()
    found = pathlib.Path(folder, library)
    return found if word in library and found.exists() else None


def find(name):
    if name == "libc":
        return newest("*-linux-gnu/libc.so.6")
    if name == "node":
        return shutil.which("node")
    if name == "libpython":
        return loaded_by("python3", "libpython")
    if name == "libLLVM":
        return newest("*-linux-gnu/libLLVM-1*.so.1")
    if name == "made":
        return make_program(pathlib.Path.cwd())
    return name if os.path.exists(name) else None


# ---- tools ----

# A process begins with the memory of the one that started it as its most: so that is a small one.
STARTER = """
import os, sys, time
start = time.monotonic()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(time.monotonic() - start, usage.ru_maxrss, status, file=open("figures", "w"))
"""


def measure(argv, text):
    """(seconds, bytes, what it printed, what it said)"""
    with open("in", "w", encoding="ascii") as file:
        file.write(text)
    with open("in", "rb") as given, open("out", "wb") as out, open("said", "wb") as said:
        subprocess.run([sys.executable, "-S", "-c", STARTER, *argv], stdin=given, stdout=out,
                       stderr=said, check=True, timeout=bench.TIMEOUT_S)
    seconds, peak_kib, status = open("figures", encoding="ascii").read().split()
    if status != "0" and not os.path.getsize("out"):
        raise bench.Harm(f"{argv[0]}: status {status}: {open('said').read()[-300:]}")
    printed = open("out", encoding="utf-8", errors="replace").read()
    return float(seconds), int(peak_kib) * 1024, printed, open("said").read()


def clean_place(text):
    """FILE:LINE, without column and discriminator; None where it is not known."""
    match = re.match(r"(.*?):(\d+)", text)
    if not match or match[2] == "0" or match[1].startswith("??"):
        return None
    return f"{os.path.basename(match[1])}:{match[2]}"


def frames_of(lines):
    """[(function, place)] of lines that alternate."""
    names = [line.split(" inlined at ")[0] for line in lines[::2]]
    return [(None if name == "??" else name, clean_place(place))
            for name, place in zip(names, lines[1::2])]


def blocks(printed):
    return [frames_of(block.split("\n")) for block in printed.strip("\n").split("\n\n")]


def marked(printed):
    """Of tools that print the address before the frames."""
    found = re.split(r"^0x[0-9a-f]+\n", printed, flags=re.M)[1:]
    return [frames_of(part.strip("\n").split("\n")) for part in found]


class Tool:
    few = False

    def __init__(self, name, argv, parse, few=False):
        self.name, self.argv, self.parse, self.few = name, argv, parse, few

    def run(self, module):
        count = FEW if self.few else len(module.pcs)
        seconds, size, printed, said = measure([str(a) for a in self.argv] + [module.path],
                                               module.addresses(count))
        return {"s": seconds, "bytes": size, "said": said, "count": count,
                "answers": self.parse(printed)}


class Kitprof(Tool):
    """Says itself how long the look-ups took, and what all its processes needed."""

    def __init__(self, name, build, warm):
        super().__init__(name, [build / "tests/bench/bench-symbols"], blocks)
        self.warm = warm

    def run(self, module):
        cache = pathlib.Path("warm" if self.warm else "cold")
        if not self.warm:
            shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(exist_ok=True)
        if self.warm:
            self.run_once(module, cache)
        return self.run_once(module, cache)

    def run_once(self, module, cache):
        seconds, size, printed, said = measure([str(self.argv[0]), module.path, str(cache.resolve())],
                                               module.addresses())
        result = {"s": seconds, "bytes": size, "said": said, "count": len(module.pcs),
                  "answers": self.parse(printed)}
        figures = dict(part.split("=") for part in result["said"].split("\n")[-2].split())
        result["bytes"] = int(figures["peak_kib"]) * 1024
        result["lookup_s"] = float(figures["seconds"])
        return result


def tools(build):
    found = [Kitprof("kitprof", build, False), Kitprof("kitprof, again", build, True)]
    for name, argv, parse, few in [
            ("llvm-symbolizer", ["llvm-symbolizer", "--inlines", "--obj"], blocks, False),
            ("addr2line", ["addr2line", "-a", "-i", "-f", "-C", "-e"], marked, True),
            ("eu-addr2line", ["eu-addr2line", "-a", "-i", "-f", "-C", "-e"], marked, True)]:
        if shutil.which(argv[0]):
            found.append(Tool(name, argv, parse, few))
        else:
            print(f"{name} is not installed: left out")
    return found


# ---- comparison ----

def symbols_of(path):
    """Sorted addresses, each as often as the symbol tables of module and debug file name it."""
    debug = None
    note = re.search(r"Build ID: ([0-9a-f]+)", bench.command("readelf", "-n", path))
    if note:
        debug = f"/usr/lib/debug/.build-id/{note[1][:2]}/{note[1][2:]}.debug"
    found = set()
    for options in (["-D", path], [path], [debug]):
        if not options[-1] or not os.path.exists(options[-1]):
            continue
        for line in subprocess.run(["nm", *options], capture_output=True, text=True,
                                   check=False).stdout.splitlines():
            part = line.split()
            if len(part) == 3 and part[1] in "tTwWiuvV":
                found.add((int(part[0], 16), part[2].split("@")[0]))
    return sorted(address for address, _ in found)


def has_two_names(symbols, pc):
    """Of the symbols that begin at or before it, the last."""
    at = bisect.bisect_right(symbols, pc)
    return at > 1 and symbols[at - 1] == symbols[at - 2]


def plain(name):
    """Without what is a matter of spelling."""
    name = re.sub(r" \[clone [^]]*\]| \(\.[^)]*\)|\.(part|constprop|isra|cold|lto_priv)\b(\.\d+)?", "", name)
    name = re.sub(r"\s+", "", name)
    return name


def is_spelling(a, b):
    a, b = plain(a), plain(b)
    # one of them with a return type in front, or (C++ without linkage name) without its parameters
    return a == b or a.endswith(b) or b.endswith(a) or a.split("(")[0] == b.split("(")[0]


def kind_of(a, b, symbols, pc):
    if a == b:
        return None
    if is_spelling(a, b):
        return "spelling"
    return "alias" if has_two_names(symbols, pc) else "other"


KINDS = ["spelling", "alias", "other", "lines", "chain"]


def differences(module, ours, theirs, symbols):
    """What differs -> numbers of the addresses."""
    found = {kind: [] for kind in KINDS}
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a[0][0] and b[0][0]:
            kind = kind_of(a[0][0], b[0][0], symbols, module.pcs[i])
            if kind:
                found[kind].append(i)
            if len(a) != len(b):
                found["chain"].append(i)
        if a[0][1] and b[0][1] and a[0][1] != b[0][1]:
            found["lines"].append(i)
    return found


def known(answers):
    return sum(1 for frames in answers if frames[0][0])


def compare(module, results, show):
    """A row's columns for each tool: what it names, and what differs from ours."""
    ours = results["kitprof"][0]["answers"]
    symbols = symbols_of(module.path)
    columns = {}
    for name, runs in results.items():
        answers = runs[0]["answers"]
        found = differences(module, ours[:len(answers)], answers, symbols)
        columns[name] = [f"{100 * known(answers) / len(answers):.1f}"]
        columns[name] += [len(found[kind]) if not name.startswith("kitprof") else "" for kind in KINDS]
        for kind in KINDS:
            for i in found[kind][:show]:
                print(f"{module.name} {kind}: {module.pcs[i]:#x}: kitprof {ours[i]}, "
                      f"{name} {answers[i]}")
    return columns


# ---- perf ----

def perf_rate():
    """Distinct addresses that perf script names in a second, of a recording of python3."""
    if not bench.has_perf():
        return None
    work = "import json,re\nfor i in range(20000): json.loads(json.dumps({'a': [i, str(i)] * 9})); re.sub('1', '2', str(i))"
    bench.command("perf", "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", "perf.data",
                  sys.executable, "-c", work)
    start = time.monotonic()
    printed = bench.command("perf", "script", "-i", "perf.data", "-F", "ip,sym,srcline", "--inline")
    seconds = time.monotonic() - start
    distinct = len(set(re.findall(r"^\s*([0-9a-f]{6,})\b", printed, re.M)))
    print(f"perf script: {distinct} distinct addresses of python3 in {seconds:.2f} s, "
          f"{distinct / seconds:.0f} a second")
    return distinct / seconds


def report(module, results, columns):
    rows = []
    for name, runs in results.items():
        seconds = bench.median([r["s"] for r in runs])
        lookup = bench.median([r.get("lookup_s") for r in runs])
        rows.append([name, runs[0]["count"], f"{seconds:.3f}", bench.text(lookup, "{:.3f}"),
                     f"{runs[0]['count'] / seconds:.0f}",
                     f"{max(r['bytes'] for r in runs) / 2**20:.0f}"] + columns[name])
    bench.table([module.name, "PCs", "s", "look-ups, s", "PC/s", "peak, MiB", "named, %",
                 *KINDS], rows)


def run(args):
    random.seed(1)
    bench.machine()
    for name in args.modules:
        path = find(name)
        if not path:
            print(f"{name}: not on this machine: left out\n")
            continue
        module = Module(name, path, args.pcs[0])
        by_name = {tool.name: tool for tool in tools(args.build)}
        results = bench.take_turns(args.rounds, list(by_name), lambda n: by_name[n].run(module))
        report(module, results, compare(module, results, args.show[0]))
    perf_rate()


if __name__ == "__main__":
    options = bench.arguments(__doc__, rounds=3, modules=MODULES, pcs=[50000],
                              show=[0])
    bench.main(lambda: run(options))
