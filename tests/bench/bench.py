"""What the benchmarks share: arms that take turns, medians, tables, the machine."""
import argparse
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 300


class Harm(Exception):
    """A program did not do under a profiler what it does alone."""


def arguments(doc, rounds, **lists):
    """Options: the build directory, --rounds, and a comma-separated list for each keyword."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    for name, default in lists.items():
        kind = type(default[0])
        parser.add_argument("--" + name, default=default,
                            type=lambda text, kind=kind: [kind(part) for part in text.split(",")])
    args = parser.parse_args()
    args.build = args.build.resolve()
    return args


def main(run):
    """Runs a benchmark in a folder of its own, which is gone afterwards. What kitprof keeps on disk
    for the next time is there, too: the first run makes it, as on a fresh machine."""
    with tempfile.TemporaryDirectory(prefix="kitprof-bench.") as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        try:
            run()
        except Harm as harm:
            sys.exit(f"bench: HARM: {harm}")


def command(*argv, **options):
    """Runs a program to its end; what it printed. It has to succeed."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False, **options)
    if done.returncode != 0:
        raise Harm(f"{' '.join(map(str, argv))}: status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def has_perf():
    if shutil.which("perf"):
        return True
    print("perf is not installed (Debian: linux-perf): its columns are left out")
    return False


def take_turns(rounds, arms, measure):
    """measure(arm) for each arm in each round, so that what slows the machine down slows all of
    them: {arm: [result, ...]}. Every other round goes backwards."""
    results = {arm: [] for arm in arms}
    for i in range(rounds):
        for arm in arms if i % 2 == 0 else reversed(arms):
            results[arm].append(measure(arm))
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{rounds} {arm}\x1b[K\r", end="", file=sys.stderr)
    return results


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def text(value, form="{:.1f}", none="-"):
    return none if value is None else form.format(value)


def least(values):
    return min(v for v in values if v is not None)


def with_spread(values, form="{:.3f}"):
    """Median, least and most."""
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    return f"{form.format(median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def table(head, rows):
    """As in the documents: Markdown."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    for row in [head, ["-" * w for w in widths]] + rows:
        print("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |")
    print(flush=True)


def machine():
    """One line: where and in what company this was measured."""
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    tick = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} x {model}, Linux {platform.release()}, tick {1 / tick:.0f} Hz, "
          f"load {load:.1f} at the start, {time.strftime('%Y-%m-%d')}\n", flush=True)
