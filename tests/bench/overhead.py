#!/usr/bin/env python3
"""What sampling costs a program: overhead.py BUILD [--rounds N] ...

CPU time for the same work under each profiler, against the program alone in the same round; arms
take turns, medians with the least and the most. The work has to have the same result in all of
them.

    spin    two threads that only compute
    shell   a shell that starts 300 programs, one after the other
    make    make -j2 over eight C files
    redis   redis-server under redis-benchmark on a unix socket, attached to while it runs

    CPU         of the program, 1.000 is alone. On a busy machine the caches are shared, too
    elapsed     the same of the time that passed (redis: of the time for a request)
    own         CPU time of the profiler, in percent of the program's
    bytes       of the file that is recorded, for each sample
"""
import dataclasses
import hashlib
import pathlib
import re
import resource

import bench
import profilers
import redis

COST = "cost.txt"
REDIS_REQUESTS = 60000


@dataclasses.dataclass
class Run:
    cpu_s: float
    elapsed_s: float
    own_s: float
    recording: profilers.Recording


# ---- jobs that are started under the profiler ----

class Spin:
    name = "spin"

    def __init__(self, build):
        self.argv = [build / "tests/bench/bench-spin", "2", "250"]

    def result(self, output):
        return re.search(r"sum (\d+)", output).group(1)


class Shell:
    name = "shell"
    argv = ["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/echo $i; i=$((i + 1)); done"]

    def __init__(self, build):
        pass

    def result(self, output):
        return hashlib.sha1(output.encode()).hexdigest()


class Make:
    name = "make"
    argv = ["make", "-s", "-B", "-j2", "-C", "job"]

    def __init__(self, build):
        folder = pathlib.Path("job")
        folder.mkdir()
        names = [f"f{i}" for i in range(8)]
        for number, name in enumerate(names):
            lines = "\n".join(f"x = x * {k + number} + (x >> {k % 30});" for k in range(1500))
            (folder / f"{name}.c").write_text(f"int {name}(int x) {{\n{lines}\nreturn x; }}\n")
        objects = " ".join(name + ".o" for name in names)
        (folder / "Makefile").write_text(f"CFLAGS = -O1\nall: {objects}\n")

    def result(self, output):
        """Of all object files: whatever was compiled under a profiler is what it should be."""
        objects = sorted(pathlib.Path("job").glob("*.o"))
        digest = hashlib.sha1(output.encode() + b"".join(o.read_bytes() for o in objects))
        for o in objects:
            o.unlink()
        return digest.hexdigest()


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Job:
    """A program from start to end. Its cost is taken from within: bench-cost is its parent."""

    def __init__(self, build, kind):
        self.cost = build / "tests/bench/bench-cost"
        self.kind = kind(build)
        self.wanted = None

    def measure(self, profiler):
        profilers.forget_files()
        before = children_cpu_s()
        output = bench.command(*profiler.wrap([self.cost, COST, *self.kind.argv]))
        all_s = children_cpu_s() - before
        result = self.kind.result(output)
        self.wanted = self.wanted or result
        if result != self.wanted:
            raise bench.Harm(f"{self.kind.name} under {profiler.name}: the result is another one")
        cpu_s, elapsed_s = map(float, pathlib.Path(COST).read_text().split())
        return Run(cpu_s, elapsed_s, all_s - cpu_s, profiler.read())

    def close(self):
        pass


# ---- a server that is attached to ----

class Server:
    name = "redis"

    def __init__(self, build):
        self.redis = redis.Redis()

    def measure(self, profiler):
        profilers.forget_files()
        with profilers.Attached(profiler, self.redis.pid) as attached:
            cpu_s, elapsed_s = self.redis.load(REDIS_REQUESTS)
        return Run(cpu_s, elapsed_s, attached.own_s, profiler.read())

    def close(self):
        self.redis.close()


WORK = {"spin": lambda build: Job(build, Spin), "shell": lambda build: Job(build, Shell),
        "make": lambda build: Job(build, Make), "redis": Server}


def profilers_to_compare(build, with_perf):
    found = [profilers.Nothing(), profilers.Kitprof(build, 99, "--clock", "timer",
                                                    name="kitprof 99, timers")]
    found += [profilers.Kitprof(build, rate) for rate in (999, 4000)]
    if with_perf:
        found += [profilers.Perf(rate, graph) for graph in ("fp", "dwarf") for rate in (99, 999)]
    return found


def against(runs, alone, key):
    return [getattr(run, key) / getattr(base, key) for run, base in zip(runs, alone)]


def row(name, runs, alone):
    recordings = [run.recording for run in runs if run.recording]
    cells = [bench.with_spread(against(runs, alone, "cpu_s")),
             bench.with_spread(against(runs, alone, "elapsed_s"))]
    if not recordings:
        return [name, *cells, "-", "-", "-"]
    samples = bench.median([r.samples for r in recordings])
    per_sample = bench.median([r.file_bytes / max(r.samples, 1) for r in recordings])
    own = bench.with_spread([100 * run.own_s / run.cpu_s for run in runs], "{:.1f}")
    return [name, *cells, own, bench.text(samples, "{:.0f}"), bench.text(per_sample, "{:.0f}")]


def run(args):
    found = profilers_to_compare(args.build, bench.has_perf())
    by_name = {p.name: p for p in found}
    bench.machine()
    for name in args.work:
        if name == "redis" and not redis.is_installed():
            continue
        work = WORK[name](args.build)
        try:
            results = bench.take_turns(args.rounds, list(by_name), lambda n: work.measure(by_name[n]))
        finally:
            work.close()
        alone = results["nothing"]
        print(f"{name}: {bench.with_spread([r.cpu_s for r in alone])} s of CPU time alone\n")
        bench.table([name, "CPU", "elapsed", "own, %", "samples", "bytes"],
                    [row(n, results[n], alone) for n in by_name])


if __name__ == "__main__":
    options = bench.arguments(__doc__, rounds=5, work=list(WORK))
    bench.main(lambda: run(options))
