"""Work for the benchmarks that is done alone and under profilers, and has to be the same in both."""
import dataclasses
import hashlib
import pathlib
import re
import resource
import shutil

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


# ---- programs that are run from start to end ----

class Program:
    """Its result is what it prints, unless a kind of program says otherwise."""
    tool = None  # has to be installed

    def __init__(self, build):
        pass

    def result(self, output):
        return hashlib.sha1(output.encode()).hexdigest()


class Spin(Program):
    """Two threads that only compute."""
    name = "spin"

    def __init__(self, build):
        super().__init__(build)
        self.argv = [build / "tests/bench/bench-spin", "2", "250"]


class Shell(Program):
    """Starts 300 programs, one after the other."""
    name = "shell"
    argv = ["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/echo $i; i=$((i + 1)); done"]


class Make(Program):
    """Two compilers at a time, over eight C files."""
    name = tool = "make"
    argv = ["make", "-s", "-B", "-j2", "-C", "job"]

    def __init__(self, build):
        super().__init__(build)
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


class Sort(Program):
    """qsort() of libc, called from and calling code without frame pointers."""
    name = "sort"

    def __init__(self, build):
        super().__init__(build)
        self.argv = [build / "tests/bench/bench-sort", "6", "400000"]


class Python(Program):
    """Recursion, strings, sorting."""
    name = "python3"
    tool = "/usr/bin/python3"
    argv = [tool, "-I", "-c", """
import json
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
words = [json.dumps({"key": i, "value": [i * i, str(i)] * 3}) for i in range(30000)]
print(fib(24), hash(len("".join(sorted(words, key=lambda w: w[::-1])))),
      sum(json.loads(w)["key"] for w in words))"""]


class Sqlite(Program):
    """A recursive query, sorting and grouping, in memory."""
    name = tool = "sqlite3"
    argv = [tool, ":memory:", """
create table t as with recursive c(x) as (select 1 union all select x + 1 from c where x < 150000)
  select x, (x * 7919) % 10007 as y, hex(x * 31337) as z from c;
create index i on t(z);
select y % 10, count(*), sum(x), max(z) from t group by y % 10 order by 3 desc;
select count(*) from t a join t b on a.z = b.z where b.y like '%7%';"""]


class Xz(Program):
    """Compresses two megabytes."""
    name = tool = "xz"
    argv = ["sh", "-c", "xz -6 -T1 -c text | sha1sum"]

    def __init__(self, build):
        super().__init__(build)
        lines = (f"{n * 7919 % 10007:05d} {n * n:x} lorem ipsum {n % 97}" for n in range(70000))
        pathlib.Path("text").write_text("\n".join(lines))


class Git(Program):
    """The patches of a history of 250 commits."""
    name = tool = "git"
    argv = ["git", "--no-pager", "-C", "history", "log", "-p", "--stat", "-M", "-C",
            "--find-copies-harder", "--format=%H %s"]

    def __init__(self, build):
        super().__init__(build)
        bench.command("git", "init", "-q", "history")
        bench.command("git", "-C", "history", "fast-import", "--quiet", input="".join(
            self.commit(n) for n in range(250)))
        bench.command("git", "-C", "history", "symbolic-ref", "HEAD", "refs/heads/bench")

    @staticmethod
    def commit(n):
        body = "\n".join(f"line {k} {k * k if k % 41 else k * n}" for k in range(600)) + "\n"
        return (f"commit refs/heads/bench\ncommitter Bench <bench@localhost> {1700000000 + n} +0000\n"
                f"data {len(str(n))}\n{n}\nM 100644 inline file{n % 40}.txt\n"
                f"data {len(body)}\n{body}\n")


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Job:
    """A program from start to end. Its cost is taken from within: bench-cost is its parent."""

    def __init__(self, build, kind):
        self.cost = build / "tests/bench/bench-cost"
        self.kind = kind(build)
        self.wanted = None

    def run(self, profiler, argv):
        profilers.forget_files()
        result = self.kind.result(bench.command(*profiler.wrap(argv)))
        self.wanted = self.wanted or result
        if result != self.wanted:
            raise bench.Harm(f"{self.kind.name} under {profiler.name}: the result is another one")

    def measure(self, profiler):
        before = children_cpu_s()
        self.run(profiler, [self.cost, COST, *self.kind.argv])
        all_s = children_cpu_s() - before
        cpu_s, elapsed_s = map(float, pathlib.Path(COST).read_text().split())
        return Run(cpu_s, elapsed_s, all_s - cpu_s, profiler.read())

    def record(self, profiler):
        """For its stacks: bench-cost is not there to be in them."""
        self.run(profiler, self.kind.argv)
        return profiler.read()

    def close(self):
        pass


# ---- a server that is attached to ----

class Redis:
    """redis-server under redis-benchmark on a unix socket, attached to while it runs."""

    def __init__(self, build):
        self.redis = redis.Redis()

    def measure(self, profiler):
        profilers.forget_files()
        with profilers.Attached(profiler, self.redis.pid) as attached:
            cpu_s, elapsed_s = self.redis.load(REDIS_REQUESTS)
        return Run(cpu_s, elapsed_s, attached.own_s, profiler.read())

    def record(self, profiler):
        return self.measure(profiler).recording

    def close(self):
        self.redis.close()


PROGRAMS = {kind.name: kind for kind in (Spin, Shell, Make, Sort, Python, Sqlite, Xz, Git)}


def make(build, name):
    """Work of that name, or None where what it needs is not installed."""
    if name == "redis":
        return Redis(build) if redis.is_installed() else None
    kind = PROGRAMS[name]
    if kind.tool and not shutil.which(kind.tool):
        print(f"{kind.tool} is not installed: it is left out")
        return None
    return Job(build, kind)
