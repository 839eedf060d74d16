"""A redis-server of our own on a unix socket, and the load that is put on it."""
import pathlib
import re
import shutil
import socket
import subprocess
import time

from bench import TIMEOUT_S, Harm

SOCKET = "redis.sock"
CANARY = ("canary", "x" * 1000)
CLIENTS = 20


def is_installed():
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        return True
    print("redis is not installed: it is left out")
    return False


class Redis:
    def __init__(self):
        folder = pathlib.Path.cwd()
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", folder / SOCKET, "--save", "",
             "--appendonly", "no", "--dir", folder], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                if self.ask("SET", *CANARY) == b"+OK":
                    break
            except OSError:
                time.sleep(0.05)
        else:
            raise Harm("redis-server does not start")
        self.load(20000)  # its threads and arenas come with the first clients

    def close(self):
        self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def ask(self, *words):
        """The first line of the answer; the second of a bulk string."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(SOCKET)
            s.sendall(f"*{len(words)}\r\n".encode() +
                      b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
            lines = s.makefile("rb")
            line = lines.readline().rstrip()
            return lines.readline().rstrip() if line.startswith(b"$") else line

    def cpu_s(self):
        """clock_getcpuclockid(3): the CPU clock of a process is ~pid << 3 | 2."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def load(self, requests):
        """So many GETs and SETs each: CPU time of the server and time passed, in s."""
        before = self.cpu_s()
        done = subprocess.run(["redis-benchmark", "-s", SOCKET, "-n", str(requests), "-c",
                               str(CLIENTS), "-t", "set,get", "-d", "100", "-r", "10000", "--csv"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        cpu = self.cpu_s() - before
        rates = re.findall(r'^"[SG]ET","([0-9.]+)"', done.stdout, re.M)
        if done.returncode != 0 or len(rates) != 2 or re.search("(?i)error", done.stderr):
            raise Harm(f"redis-benchmark: {done.stderr}{done.stdout}")
        if self.ask("GET", CANARY[0]) != CANARY[1].encode():
            raise Harm("redis has lost a value")
        return cpu, sum(requests / float(rate) for rate in rates)
