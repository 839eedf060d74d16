#!/usr/bin/env python3
"""What sampling costs a program: overhead.py BUILD [--rounds N] ...

CPU time for the same work under each profiler, against the program alone in the same round; arms
take turns, medians with the least and the most. The work has to have the same result in all of
them.

    CPU         of the program, 1.000 is alone
    best        the same from the fastest round of each: what else the machine does, and the host of
                a virtual one, only makes it slower
    elapsed     the same of the time that passed (redis: of the time for a request)
    own         CPU time of the profiler, in percent of the program's
    bytes       of the file that is recorded, for each sample
"""
import bench
import jobs
import profilers


def profilers_to_compare(build, with_perf):
    found = [profilers.Nothing(), profilers.Kitprof(build, 99, "--clock", "timer",
                                                    name="kitprof 99, timers")]
    found += [profilers.Kitprof(build, rate) for rate in (999, 4000)]
    if with_perf:
        found += [profilers.Perf(rate, graph) for graph in ("fp", "dwarf") for rate in (99, 999)]
    return found


def against(runs, alone, key):
    return [getattr(run, key) / getattr(base, key) for run, base in zip(runs, alone)]


def best(runs, alone):
    return bench.least(run.cpu_s for run in runs) / bench.least(run.cpu_s for run in alone)


def row(name, runs, alone):
    recordings = [run.recording for run in runs if run.recording]
    cells = [bench.with_spread(against(runs, alone, "cpu_s")), bench.text(best(runs, alone), "{:.3f}"),
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
        work = jobs.make(args.build, name)
        if not work:
            continue
        try:
            results = bench.take_turns(args.rounds, list(by_name), lambda n: work.measure(by_name[n]))
        finally:
            work.close()
        alone = results["nothing"]
        print(f"{name}: {bench.with_spread([r.cpu_s for r in alone])} s of CPU time alone\n")
        bench.table([name, "CPU", "best", "elapsed", "own, %", "samples", "bytes"],
                    [row(n, results[n], alone) for n in by_name])


if __name__ == "__main__":
    options = bench.arguments(__doc__, rounds=5, work=["spin", "shell", "make", "redis"])
    bench.main(lambda: run(options))
