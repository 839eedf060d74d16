#!/usr/bin/env python3
"""Ways to find the callers, on real programs: unwind.py BUILD [--rounds N] ...

kitprof's four ways and perf's two, at one rate, on programs that were compiled without frame
pointers, as a distribution does. Arms take turns, medians; the programs' results have to be what
they are alone.

    whole     samples whose stack reaches the program's or the thread's start, in percent. One rule
              for all: the outermost frame, or the next one where a stripped program's start has no
              name, is a function that programs and threads begin with
    frames    of a stack, in the mean; inlined ones not counted for kitprof, counted by perf
    bytes     of the file that is recorded, for each sample
    CPU       of the program, with the least and the most; 1.000 is alone
    us        CPU time of the program for each sample, from the fastest round of each
    own       CPU time of the profiler, in percent of the program's
"""
import bench
import jobs
import profilers

NAMES = ["sort", "python3", "redis", "sqlite3", "xz", "git"]
WAYS = ["auto", "table", "fp", "slice"]


def profilers_to_compare(build, rate, with_perf):
    found = [profilers.Nothing()]
    found += [profilers.Kitprof(build, rate, "--unwind", way, name=f"kitprof {way}")
              for way in WAYS]
    if with_perf:
        found += [profilers.Perf(rate, graph, name=f"perf {graph}") for graph in ("fp", "dwarf")]
    return found


class Measured:
    """Two runs: one for what it costs, one for its stacks."""

    def __init__(self, work, profiler):
        self.run = work.measure(profiler)
        self.recording = work.record(profiler)
        self.stacks = profiler.read_stacks()


def cost_us(runs, alone):
    least = bench.least(run.cpu_s for run in runs) - bench.least(run.cpu_s for run in alone)
    return 1e6 * least / bench.median([run.recording.samples for run in runs])


def row(name, measured, alone):
    runs, runs_alone = [m.run for m in measured], [m.run for m in alone]
    cpu = bench.with_spread([run.cpu_s / base.cpu_s for run, base in zip(runs, runs_alone)])
    recordings = [m.recording for m in measured]
    if not recordings[0]:
        return [name, "-", "-", "-", cpu, "-", "-", "-"]
    return [name,
            bench.text(bench.median([m.stacks.whole_percent for m in measured])),
            bench.text(bench.median([m.stacks.frames for m in measured])),
            bench.text(bench.median([r.file_bytes / r.samples for r in recordings]), "{:.0f}"),
            cpu, bench.text(cost_us(runs, runs_alone)),
            bench.text(bench.median([100 * run.own_s / run.cpu_s for run in runs])),
            bench.text(bench.median([r.samples for r in recordings]), "{:.0f}")]


def run(args):
    by_name = {p.name: p for p in
               profilers_to_compare(args.build, args.rate[0], bench.has_perf())}
    bench.machine()
    for name in args.work:
        work = jobs.make(args.build, name)
        if not work:
            continue
        try:
            results = bench.take_turns(args.rounds, list(by_name),
                                       lambda n: Measured(work, by_name[n]))
        finally:
            work.close()
        bench.table([name, "whole, %", "frames", "bytes", "CPU", "us", "own, %", "samples"],
                    [row(n, results[n], results["nothing"]) for n in by_name])


if __name__ == "__main__":
    options = bench.arguments(__doc__, rounds=3, work=NAMES, rate=[999])
    bench.main(lambda: run(options))
