#!/usr/bin/env python3
"""Builds the agent's image for one CPU: ELF for the lints, flat bytes for the daemon.

The same way with the compiler that builds the daemon and with cross compilers, and untouched by
the flags of the rest (sanitizers, hardening, coverage), which mean nothing without a libc.
"""

import argparse
import pathlib
import shlex
import subprocess
import sys


def run(*command):
    status = subprocess.run(command).returncode
    if status:
        sys.exit(status)


def depend(depfile, target, parts):
    """Joins the compiler's depfiles to one, for ninja."""
    names = []
    for part in parts:
        text = part.read_text().replace("\\\n", " ")
        names += text.split(":", 1)[1].split()
    depfile.write_text(f"{target}: {' '.join(dict.fromkeys(names))}\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cc", required=True, help="compiler and arguments, as in a shell")
    ap.add_argument("--root", required=True)
    ap.add_argument("--script", required=True)
    ap.add_argument("--elf", required=True)
    ap.add_argument("--image", required=True)
    ap.add_argument("--depfile", required=True)
    ap.add_argument("sources", nargs="+")
    args = ap.parse_args()

    cc = shlex.split(args.cc)
    work = pathlib.Path(args.elf + ".p")
    work.mkdir(exist_ok=True)
    objects, depfiles = [], []
    for source in args.sources:
        obj = work / (source.replace("../", "").replace("/", "_") + ".o")
        dep = obj.with_suffix(".d")
        hidden = [] if source.endswith(".S") else ["-include", args.root + "/agent/hidden.h"]
        run(*cc, "-I", args.root, *hidden, "-MD", "-MF", str(dep), "-c", source, "-o", str(obj))
        objects.append(str(obj))
        depfiles.append(dep)
    run(
        *cc, "-nostdlib", "-static-pie", "-Wl,--no-dynamic-linker,--gc-sections,--build-id=none",
        "-Wl,-z,noexecstack,-z,max-page-size=4096,--no-undefined", "-Wl,-T," + args.script,
        "-o", args.elf, *objects,
    )
    objcopy = subprocess.run(
        [*cc, "-print-prog-name=objcopy"], check=True, capture_output=True, text=True
    ).stdout.strip()
    run(objcopy, "-O", "binary", "-j", ".image", args.elf, args.image)
    depend(pathlib.Path(args.depfile), args.elf, depfiles)


main()
