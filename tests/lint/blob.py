#!/usr/bin/env python3
"""Whether an image of the agent keeps its promises: it runs wherever it is mapped, needs nothing
but itself, and touches no register that the interrupted program may be using and the kernel does
not need (floating point, vector, thread pointer).

    blob.py --cc CC --root ROOT ELF IMAGE    lints an image
    blob.py --cc CC --self-test              shows that it finds what it looks for
"""

import argparse
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

# Sections in memory besides the image itself: what any linked file has. None of it is copied.
LINKER_SECTIONS = {".dynsym", ".dynstr", ".hash", ".gnu.hash", ".dynamic"}
GOT_RESERVED_BYTES = 32  # the linker's own words in an otherwise empty GOT

# Operands and mnemonics that are not for us, by ELF machine.
FORBIDDEN = {
    "X86-64": r"%(?:[xyz]?mm\d+|st\b|k[0-7]\b)|%[fg]s:|^\s*f(?!s:)[a-z]+",
    "AArch64": r"(?<![\w.#])[vqdshbzp]\d{1,2}(?:\.\w+)?(?:\[\d+\])?(?!\w)|tpidr",
    "RISC-V": r"(?<!\w)(?:f[tas]\d{1,2}|v\d{1,2}|tp)(?!\w)|^\s*f(?!ence)[a-z]+\.|^\s*vset",
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Elf:
    def __init__(self, cc, path):
        tool = lambda name: output(*cc, "-print-prog-name=" + name).strip()
        self.objdump, self.readelf, self.path = tool("objdump"), tool("readelf"), str(path)
        header = output(self.readelf, "-hW", self.path)
        self.machine = next(m for m in FORBIDDEN if re.search(rf"Machine:.*{m}", header))
        self.sections = self.read_sections()
        self.symbols = self.read_symbols()

    def read_sections(self):
        """name -> (type, size, flags)"""
        row = r"^\s*\[ *\d+\] (\S+)\s+(\S+)\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) \S+\s+([A-Za-z]*) "
        rows = re.findall(row, output(self.readelf, "-SW", self.path), re.M)
        return {name: (kind, int(size, 16), flags) for name, kind, size, flags in rows}

    def read_symbols(self):
        """[(name, type, section, value)]"""
        row = r"^\s*\d+: ([0-9a-f]+)\s+\S+\s+(\S+)\s+\S+\s+\S+\s+(?:\[.*?\] )?(\S+) (\S+)$"
        rows = re.findall(row, output(self.readelf, "-sW", self.path), re.M)
        return [(name, kind, section, int(value, 16)) for value, kind, section, name in rows]

    def relocations(self):
        text = output(self.readelf, "-rW", self.path)
        return re.findall(r"^[0-9a-f]{12,16}.*R_\w+.*$", text, re.M)

    def instructions(self):
        """(function, instruction) of everything that is code, not tables"""
        functions = {name for name, kind, _, _ in self.symbols if kind == "FUNC"}
        function = None
        for line in output(self.objdump, "-d", "--no-show-raw-insn", self.path).splitlines():
            label = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
            if label:
                function = label[1] if label[1] in functions else None
            elif function and ":\t" in line:
                text = line.split(":\t", 1)[1].replace("\t", " ")
                # without comments and the addresses of branches, which may look like registers
                yield function, re.sub(r"\s*(//|#(?! *-?\d|0x)).*|[0-9a-f]+ <[^>]*>", "", text)


def check_sections(elf):
    found = []
    for name, (kind, size, flags) in elf.sections.items():
        if "A" not in flags or not size or name in LINKER_SECTIONS | {".image"}:
            continue
        if name in (".got", ".got.plt") and size <= GOT_RESERVED_BYTES:
            continue
        if "T" in flags:
            found.append(f"thread-local data {name}")
        elif kind == "NOBITS" or "W" in flags:
            found.append(f"writable data {name}")
        else:
            found.append(f"not in the image: {name}")
    return found


def check_elf(elf):
    found = [f"undefined symbol {name}" for name, _, section, _ in elf.symbols if section == "UND"]
    found += [f"relocation {line}" for line in elf.relocations()]
    found += check_sections(elf)
    code = list(elf.instructions())
    forbidden = re.compile(FORBIDDEN[elf.machine])
    found += [f"forbidden instruction in {f}: {insn}" for f, insn in code if forbidden.search(insn)]
    if len(code) < 5:
        found.append("no code was found to look at")
    return found


def constants(root):
    text = (root / "proto/shm.h").read_text()
    numbers = re.findall(
        r"^#define (KP_\w+) (?:UINT32_C\()?(0x[0-9a-f]+|\d+)u?\)?(?: |$)", text, re.M)
    values = {name: int(number, 0) for name, number in numbers}
    values["KP_SHM_HEAD_OFFSET"] = values["KP_SHM_CODE_BYTES"]
    before_ring = ("KP_SHM_CODE_BYTES", "KP_SHM_HEAD_BYTES", "KP_SHM_STACK_BYTES")
    values["KP_SHM_RING_OFFSET"] = sum(values[name] for name in before_ring)
    return values


def check_image(elf, image, shm):
    at = {name: value for name, _, _, value in elf.symbols}
    magic, version, handler, restorer, call, _ = struct.unpack("<6I", image[:24])
    wanted = [
        ("magic", magic, shm["KP_AGENT_MAGIC"]),
        ("version", version, shm["KP_SHM_VERSION"]),
        ("handler_off", handler, at["kp_agent_handler"]),
        ("restorer_off", restorer, at.get("__restore_rt", 0)),
        ("call_off", call, at["kp_agent_call"]),
        ("address of kp_shm", at["kp_shm"], shm["KP_SHM_HEAD_OFFSET"]),
        ("address of kp_shm_ring", at["kp_shm_ring"], shm["KP_SHM_RING_OFFSET"]),
        ("bytes", len(image), elf.sections[".image"][1]),
    ]
    found = [f"{what} is {got:#x}, not {want:#x}" for what, got, want in wanted if got != want]
    if len(image) > shm["KP_SHM_CODE_BYTES"]:
        found.append("larger than KP_SHM_CODE_BYTES")
    return found


BAD = {
    "forbidden instruction": "double f(double x) { return x * 3; }",
    "undefined symbol": "int other(void); int f(void) { return other() + 1; }",
    "writable data": "int counter = 5; int f(void) { return ++counter; }",
    "thread-local data": "static __thread int t = 3; int f(void) { return ++t; }",
    "relocation": "int x; int *const p = &x; int f(void) { return *p; }",
    "not in the image": "const int table[] = { 1, 2 }; int f(int i) { return table[i]; }",
}


def self_test(cc):
    missed = []
    with tempfile.TemporaryDirectory() as work:
        source, library = pathlib.Path(work, "bad.c"), pathlib.Path(work, "bad.so")
        for what, text in BAD.items():
            source.write_text(text + "\n")
            output(*cc, "-O1", "-fPIC", "-shared", "-nostdlib", "-o", library, source)
            if not any(line.startswith(what) for line in check_elf(Elf(cc, library))):
                missed.append(f"self-test: {what} was not found")
    return missed


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cc", required=True)
    ap.add_argument("--root", type=pathlib.Path)
    ap.add_argument("--self-test", action="store_true")
    ap.add_argument("files", nargs="*")
    args = ap.parse_args()
    cc = shlex.split(args.cc)

    if args.self_test:
        found = self_test(cc)
    else:
        elf = Elf(cc, args.files[0])
        image = pathlib.Path(args.files[1]).read_bytes()
        found = check_elf(elf) + check_image(elf, image, constants(args.root))
        print(f"{elf.machine}: {len(image)} bytes, {len(list(elf.instructions()))} instructions")
    print(*found, sep="\n")
    return 1 if found else 0


sys.exit(main())
