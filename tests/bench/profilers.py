"""Runs programs under kitprof and under perf, and reads what they have recorded.

Both only record: names and reports are made afterwards and are nobody's overhead here.
"""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

from bench import Harm, command

RAW = "prof.kitprof"
PERF_DATA = "perf.data"
SETTLE_S = 0.2  # from the first sign of an attachment until its clocks run


@dataclasses.dataclass
class Recording:
    """What a profiler has to show. Times in seconds."""
    samples: int
    file_bytes: int
    sampled_s: float  # sum of the weights
    tids: set  # threads that have a sample
    explained_percent: float = None  # as kitprof says, of the CPU time that it knows


@dataclasses.dataclass
class Stacks:
    """Of all samples that have a stack in user mode."""
    whole_percent: float
    frames: float


# What programs and threads begin with: glibc, musl, ld.so.
STARTS = {"_start", "_start_c", "_dl_start", "_dl_start_user", "__libc_start_main",
          "__libc_start_main_impl", "__libc_start_main_alias_2", "__libc_start_call_main",
          "start_thread", "start", "clone", "__clone", "clone3", "__clone3", "__GI___clone",
          "__GI___clone3", "__clone_internal"}


CUT = "[truncated]"  # kitprof shows it as the root of a stack that is not whole


def is_whole(root_first):
    """Of names: a stripped program's start has none, its caller's neighbour has."""
    return any(name.split("@")[0] in STARTS for name in root_first[:2])


def sum_up(stacks):
    """stacks: of (weight, names from the root on)"""
    total = whole = frames = 0
    for weight, names in stacks:
        total += weight
        whole += weight * is_whole(names)
        frames += weight * len(names)
    return Stacks(100 * whole / total, frames / total) if total else Stacks(None, None)


class Nothing:
    """The program alone."""
    name = "nothing"

    def wrap(self, argv):
        return argv

    def attach(self, pid):
        return None

    def read(self):
        return None

    def read_stacks(self):
        return None


class Kitprof:
    def __init__(self, build, rate, *options, name=None, perf_events=True):
        self.build = build
        self.options = ["-q", "-r", str(rate), "--no-folded", "--no-flat", *options]
        self.name = name or f"kitprof {rate}"
        self.prefix = [] if perf_events else [build / "tests/bench/bench-without-perf"]

    def wrap(self, argv):
        return [*self.prefix, self.build / "kitprof", "run", *self.options, "--", *argv]

    def has_attached(self, pid):
        return "/memfd:kitprof" in pathlib.Path(f"/proc/{pid}/maps").read_text()

    def attach(self, pid):
        return [*self.prefix, self.build / "kitprof", "record", "--pid", str(pid), "-d", "600",
                *self.options]

    def read(self):
        stats = json.loads(command(self.build / "kitprof", "report", "-q", "--stats", "--json", RAW))
        if stats["samples_taken"] != stats["samples_kept"] + stats["samples_dropped"]:
            raise Harm(f"the account of {self.name} does not balance")
        threads = [t for t in stats["threads"] if t["samples"]]
        return Recording(samples=stats["samples_kept"], file_bytes=os.path.getsize(RAW),
                         sampled_s=stats["sampled_ns"] / 1e9,
                         tids={t["tid"] for t in threads},
                         explained_percent=stats["explained_percent"])


    def read_stacks(self):
        """From folded stacks: their first frame is the program's name."""
        lines = command(self.build / "kitprof", "report", "-q", "--no-flat", "-o", "-", RAW)
        parted = (line.rpartition(" ") for line in lines.splitlines())
        return sum_up((int(weight), [name for name in stack.split(";")[1:] if name != CUT])
                      for stack, _, weight in parted)


class Perf:
    def __init__(self, rate, call_graph=None, name=None):
        self.options = ["-q", "-e", "task-clock", "-F", str(rate), "-o", PERF_DATA]
        if call_graph:
            self.options += ["--call-graph", call_graph]
        self.name = name or f"perf {rate} {call_graph or ''}".strip()

    def wrap(self, argv):
        return ["perf", "record", *self.options, "--", *argv]

    def has_attached(self, pid):
        return os.path.exists(PERF_DATA)

    def attach(self, pid):
        return ["perf", "record", *self.options, "-p", str(pid)]

    def read(self):
        lines = command("perf", "script", "-i", PERF_DATA, "-F", "tid,period").splitlines()
        samples = [line.split() for line in lines if line.strip()]
        return Recording(samples=len(samples), file_bytes=os.path.getsize(PERF_DATA),
                         sampled_s=sum(int(s[1]) for s in samples) / 1e9,
                         tids={int(s[0]) for s in samples})

    def read_stacks(self):
        return sum_up(perf_stacks(command("perf", "script", "-i", PERF_DATA, "-F", "ip,sym,dso")))


def perf_stacks(text):
    """Of `perf script -F ip,sym,dso`: a paragraph each, the leaf first; the kernel's part is left
    out, and so are samples that have no other."""
    for paragraph in text.split("\n\n"):
        frames = [line.split(None, 1) for line in paragraph.splitlines() if line.strip()]
        names = [frame[1].rpartition(" (")[0] for frame in frames
                 if len(frame) == 2 and "([kernel.kallsyms]" not in frame[1]]
        if names:
            yield 1, names[::-1]


class Attached:
    """A profiler that has attached to a process, until the block ends."""

    def __init__(self, profiler, pid):
        self.own_s = 0
        self.profiler = profiler
        argv = profiler.attach(pid)
        self.process = argv and subprocess.Popen([str(a) for a in argv])
        for _ in range(100):
            if not argv or self.process.poll() is not None or profiler.has_attached(pid):
                break
            time.sleep(0.05)
        time.sleep(SETTLE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process:
            return
        self.process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.own_s = usage.ru_utime + usage.ru_stime
        if self.process.returncode not in (0, -signal.SIGINT):
            raise Harm(f"{self.profiler.name}: status {self.process.returncode}")


def forget_files():
    for name in (RAW, PERF_DATA, PERF_DATA + ".old"):
        pathlib.Path(name).unlink(missing_ok=True)
