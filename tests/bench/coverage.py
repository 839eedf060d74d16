#!/usr/bin/env python3
"""How much of the CPU time of short lives is sampled: coverage.py BUILD [--rounds N] ...

Threads, forked children and executed programs that each use 2 to 100 ms of CPU time, two at a time.
The CPU time is what the program says of itself (getrusage). Medians of rounds in which all arms
take turns; the program's result has to be the same in all of them.

    explained   as kitprof says
    sampled     weights of the samples, against the program's own CPU time
    unseen      lives that have no sample at all
"""
import re

import bench
import profilers

RUN_MS = 600  # CPU time of all lives of a run, about
LIVES_MIN = 10


class Victim:
    def __init__(self, build):
        self.brief = build / "tests/bench/bench-brief"
        self.rounds_of_ms = int(bench.command(self.brief, "measure"))
        self.sums = {}

    def argv(self, kind, ms):
        return [self.brief, kind, lives(ms), self.rounds_of_ms * ms]

    def cpu_s(self, kind, ms, output):
        """Also: is the result what it is without a profiler?"""
        cpu, checksum = re.search(r"cpu ([0-9.]+) sum (\d+)", output).groups()
        if self.sums.setdefault((kind, ms), checksum) != checksum:
            raise bench.Harm(f"{kind} of {ms} ms computed {checksum}, not {self.sums[kind, ms]}")
        return float(cpu)


def lives(ms):
    return max(RUN_MS // ms, LIVES_MIN)


def measure(victim, kind, ms, profiler):
    """percent explained, percent sampled, percent of lives without a sample"""
    profilers.forget_files()
    cpu_s = victim.cpu_s(kind, ms, bench.command(*profiler.wrap(victim.argv(kind, ms))))
    got = profiler.read()
    # The main thread is no life, but mostly has no sample either.
    unseen = max(lives(ms) - len(got.tids), 0)
    explained = None if got.explained_percent is None else got.explained_percent
    return explained, 100 * got.sampled_s / cpu_s, 100 * unseen / lives(ms)


def arms(build, rate, with_perf):
    found = [profilers.Kitprof(build, rate, name="kitprof"),
             profilers.Kitprof(build, rate, name="kitprof, no perf events", perf_events=False)]
    return found + [profilers.Perf(rate, name="perf record")] if with_perf else found


def cells(results):
    return [bench.text(bench.median([r[i] for r in results])) for i in range(3)]


def run(args):
    with_perf = bench.has_perf()
    bench.machine()
    victim = Victim(args.build)
    head = ["lives of", "ms", "Hz", "kitprof: explained, %", "sampled, %", "unseen, %",
            "without perf events: explained, %", "sampled, %", "unseen, %"]
    head += ["perf record: sampled, %", "unseen, %"] if with_perf else []
    for kind in args.kinds:
        rows = []
        for ms in args.ms:
            # What it is alone, once.
            victim.cpu_s(kind, ms, bench.command(*victim.argv(kind, ms)))
            for rate in args.rates:
                found = arms(args.build, rate, with_perf)
                by_name = {p.name: p for p in found}
                results = bench.take_turns(args.rounds, list(by_name),
                                           lambda n: measure(victim, kind, ms, by_name[n]))
                row = [kind, ms, rate]
                for profiler in found:
                    row += cells(results[profiler.name])
                rows.append(row[:9] + row[10:])  # perf explains nothing
        bench.table(head, rows)


if __name__ == "__main__":
    options = bench.arguments(__doc__, rounds=3, kinds=["thread", "fork", "exec"],
                              ms=[2, 5, 20, 100], rates=[99, 999, 4000])
    bench.main(lambda: run(options))
