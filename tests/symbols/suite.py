"""
How the conformance suite of names is run: SCRIPT FRAMES. A script has cases, functions whose name
is the sentence that is tested and whose text says which fault of the field it is. A case gets a
directory of its own. It fails by an assertion; what lacks a tool is skipped, and said.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

import elf

CASES = []
SKIP = 77


class Skip(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr}"
    return done.stdout


class Frame:
    def __init__(self, line):
        self.name, self.system, self.file, number, inlined = line.split("\t")
        self.line, self.inlined = int(number), bool(inlined)

    def __repr__(self):
        return f"{self.name} {self.file}:{self.line}{' inlined' if self.inlined else ''}"


class Answer:
    """frames: offset -> list of Frame; address: offset -> address; note: text or None."""

    def __init__(self, text):
        self.frames, self.address, self.note = {}, {}, None
        for line in text.split("\n")[:-1]:
            if line.startswith("= "):
                offset, address = (int(n, 16) for n in line[2:].split())
                self.frames[offset] = current = []
                self.address[offset] = address
            elif line.startswith("note: "):
                self.note = line[6:]
            else:
                current.append(Frame(line))


def frames_of(path, offsets):
    done = subprocess.run(
        [sys.argv[1], str(path)] + [f"{o:x}" for o in sorted(set(offsets))],
        capture_output=True, timeout=60, check=False,
    )
    assert done.returncode == 0, f"frames {path}: {done.returncode}: {done.stderr.decode(errors='replace')}"
    return Answer(done.stdout.decode())  # it has to be UTF-8


def answers(path, addresses):
    """address -> frames, each asked by its offset in the file, and the address that is given back checked."""
    file = elf.File(path)
    offset = {a: file.offset(a) for a in addresses}
    answer = frames_of(path, offset.values())
    for a, o in offset.items():
        assert answer.address[o] == a, f"offset {o:#x}: address {answer.address[o]:#x}, not {a:#x}"
    return {a: answer.frames[o] for a, o in offset.items()}


def name_at(path, addresses):
    """address -> the name of the function itself, or None."""
    return {a: f[-1].name if f else None for a, f in answers(path, addresses).items()}


def expect(path, names):
    """names: address -> what has to be said."""
    got = name_at(path, names)
    wrong = [f"{a:#x}: {got[a]!r}, not {names[a]!r}" for a in names if got[a] != names[a]]
    assert not wrong, "\n".join(wrong)


def symbols(path):
    """name -> address, as nm says."""
    lines = [line.split() for line in run("nm", path).splitlines()]
    return {line[2]: int(line[0], 16) for line in lines if len(line) == 3}


def main():
    failed = passed = 0
    for function in CASES:
        sentence = function.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as made:
            try:
                function(pathlib.Path(made))
                print(f"ok: {sentence}")
                passed += 1
            except Skip as why:
                print(f"skipped: {sentence}: {why}")
            except Exception as error:  # the others have to be run too
                print(f"FAILED: {sentence}: {error}")
                if not isinstance(error, AssertionError):
                    traceback.print_exc(file=sys.stdout)
                failed += 1
    return 1 if failed else 0 if passed else SKIP
