#!/usr/bin/env python3
"""Whether the figures of `kitprof report --stats --json` on stdin agree with each other."""
import json
import sys

stats = json.load(sys.stdin)
lost = sum(stats[key] for key in ("dropped_full", "dropped_cap", "abandoned", "bad"))
sums = {
    "taken = kept + dropped": (stats["samples_taken"], stats["samples_kept"] + stats["samples_dropped"]),
    "dropped, part by part": (stats["samples_dropped"], lost),
    "samples of threads": (stats["samples_kept"], sum(t["samples"] for t in stats["threads"])),
    "samples of clocks": (stats["samples_kept"], sum(c["samples"] for c in stats["clocks"])),
    "CPU time of threads": (stats["explained_ns"], sum(t["cpu_explained_ns"] for t in stats["threads"])),
}
wrong = [f"{what}: {a} and {b}" for what, (a, b) in sums.items() if a != b]
if stats["cpu_ns"]:
    percent = 100 * stats["explained_ns"] / stats["cpu_ns"]
    if abs(percent - stats["explained_percent"]) > 0.001:
        wrong.append(f"explained_percent: {stats['explained_percent']} for {percent}")
print(*wrong, sep="\n")
sys.exit(1 if wrong else 0)
