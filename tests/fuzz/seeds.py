#!/usr/bin/env python3
"""Writes those inputs of the fuzz targets that are made up; to be run by hand after a change.

A seed is an input that goes deep, for a fuzzer to start from. They are kept in tests/fuzz/corpus/
beside what fuzzers have found; this is how they were made.
"""

import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent / "corpus"

# common/unwind/table.h
GAP, STOP, SP, FP, REG, DEREF_SP, DEREF_FP, PLT, SIGNAL, INVALID, CHAIN, SWITCH, LEFT = range(13)
VERSION = 3
SAME, AT_CFA, AT_FP, AT_SP, UNDEFINED = range(5)
AUTO, BY_FP, TABLE, SLICE = range(4)

STACK, TEXT = 0x7FFE00000000, 0x400000  # tests/fuzz/walk.c
MACHINES = [62, 183, 243]  # e_machine


def rule(cfa, cfa_off=0, fp=SAME, fp_off=0, ra=AT_CFA, ra_off=-8, reg=0, add=0):
    return struct.pack("<4B5iI", cfa, fp, ra, reg, cfa_off, fp_off, ra_off, add, 0, SAME)


def table(machine, rules, rows, pages=1):
    """rows: (address, index of the rule), ascending"""
    first_row = [sum(address < page << 16 for address, _ in rows) for page in range(pages + 1)]
    body = b"".join(rules)
    body += b"".join(struct.pack("<I", n) for n in first_row)
    body += b"".join(struct.pack("<HH", address & 0xFFFF, n) for address, n in rows)
    head = struct.pack("<IHHQQIIII", 0x5455504B, VERSION, machine, 0, 40 + len(body), len(rules), pages,
                       len(rows), 0)
    return head + body


def walk(cpu, mode, table_bytes, memory, pc, sp, fp=0, ra=0, depth=32):
    head = struct.pack("<BBHI5Q", cpu, mode, len(table_bytes), depth, pc, sp, fp, ra, 1)
    return head + table_bytes + b"".join(struct.pack("<Q", word) for word in memory)


def stack(**words):
    """128 words; _N: the N-th is value"""
    memory = [0x1111111111111111] * 128
    for name, value in words.items():
        memory[int(name[1:])] = value
    return memory


def walk_seeds():
    rules = [rule(GAP), rule(STOP), rule(SP, 32), rule(FP, 16, AT_CFA, -16), rule(SP, 0, ra=SAME),
             rule(PLT, 8, reg=10), rule(DEREF_SP, 16, add=8), rule(DEREF_FP, -8, AT_FP, 0, AT_FP, 8),
             rule(REG, 0, reg=3), rule(SIGNAL), rule(INVALID), rule(SP, 16, UNDEFINED), rule(CHAIN),
             rule(SWITCH), rule(LEFT)]
    rows = [(0x100 * n, n) for n in range(len(rules))] + [(0x10000 + 0x80 * n, n) for n in range(len(rules))]
    code = [TEXT + 0x100 * n + 0x40 for n in range(len(rules))]
    base = STACK
    for cpu, machine in enumerate(MACHINES):
        t = table(machine, rules, rows, 2)
        by_sp = stack(_3=code[2], _7=code[2], _11=code[3], _12=code[11], _18=code[3], _20=base + 240,
                      _21=code[1], _30=0, _31=code[1])
        yield f"sp-{cpu}", walk(cpu, TABLE, t, by_sp, code[2], base, base + 160, 0)
        leaf = stack(_3=code[2], _7=code[1])
        yield f"link-{cpu}", walk(cpu, AUTO, t, leaf, code[4], base, 0, code[2])
        plt = stack(_1=code[6], _4=base + 80, _10=code[7], _20=base + 208, _21=base + 240,
                    _22=code[1])
        yield f"deref-{cpu}", walk(cpu, AUTO | 4, t, plt, code[5] + 12, base, base + 168)
        # A chain of frame pointers in code without rules, then a rule.
        if cpu == 2:
            chain = stack(_8=base + 160, _9=code[0], _18=0, _19=code[1])
        else:
            chain = stack(_10=base + 160, _11=code[0], _20=0, _21=code[1])
        yield f"chain-{cpu}", walk(cpu, AUTO, t, chain, code[0], base, base + 80)
        # Code that goes over to a stack below, and comes from one that has left its own for good.
        low = 2 if cpu == 2 else 0
        words = {}
        for cfa, (prev, function) in {60: (66, 12), 66: (20, 13), 20: (26, 12), 26: (0, 14)}.items():
            words[f"_{cfa - low}"] = base + 8 * prev if prev else 0
            words[f"_{cfa - low + 1}"] = code[function]
        yield f"switch-{cpu}", walk(cpu, AUTO, t, stack(**words), code[12], base + 400, base + 480)
        # The same interrupted registers behind a restorer with a rule, and behind one without.
        pc, sp, fp, ra = [(168, 160, 120, None), (568, 560, 544, 552), (304, 320, 368, 312)][cpu]
        words = {f"_{pc // 8}": code[2], f"_{sp // 8}": base + 800, f"_{fp // 8}": 0,
                 "_103": code[1]}
        if ra:
            words[f"_{ra // 8}"] = code[3]
        yield f"signal-{cpu}", walk(cpu, AUTO, t, stack(**words), code[9], base)
        restorer = [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\x68\x11\x80\xd2\1\0\0\xd4",
                    b"\x93\x08\xb0\x08\x73\0\0\0"][cpu].ljust(16, b"\x90")
        words["_120"], words["_121"] = struct.unpack("<QQ", restorer)
        words["_1" if cpu == 0 else "_17"] = 0
        yield f"restorer-{cpu}", walk(cpu, AUTO, b"", stack(**words), TEXT + 960, base)


# tests/unit/unwind/framewriter.h
CODE, FRAMES = 0x401000, 0x500000
SECTIONS, HDR, DEBUG, COMPRESSED, GO, SYMBOLS = 1, 2, 4, 8, 16, 32
SDATA4_HERE = 0x1B  # DW_EH_PE_pcrel | DW_EH_PE_sdata4
RA = [16, 30, 1]
START = [bytes([0x0C, 7, 8, 0x90, 1]), bytes([0x0C, 31, 0]), bytes([0x0D, 2])]


def entry(body):
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def cie(cpu, augmentation=b"R", data=bytes([SDATA4_HERE])):
    return entry(struct.pack("<IB", 0, 1) + b"z" + augmentation + bytes([0, 1, 0x78, RA[cpu], len(data)])
                 + data + START[cpu])


def fde(section, start, size, program, cie_at=0):
    at = len(section)
    return section + entry(struct.pack("<IiIB", at + 4 - cie_at, CODE + start - (FRAMES + at + 8), size, 0)
                           + bytes(program))


def debug_frame(version, cpu):
    body = struct.pack("<IBB", 0xFFFFFFFF, version, 0) + (bytes([8, 0]) if version == 4 else b"")
    section = entry(body + bytes([1, 0x78, RA[cpu]]) + START[cpu])
    return section + entry(struct.pack("<IQQ", 0, CODE + 0x100, 0x80) + bytes([0x44, 0x0E, 32]))


def elf(machine, section):
    """The whole file: code that is not in it, .eh_frame, and the header that says where that is"""
    data = 64 + 3 * 56
    hdr = struct.pack("<4Bi", 1, SDATA4_HERE, 0xFF, 0xFF, -len(section) - 4)
    size = len(section) + len(hdr)
    phdrs = [(1, 5, 0, CODE, CODE, 0, 0x10000, 1), (1, 4, data, FRAMES, FRAMES, size, size, 1),
             (0x6474E550, 4, 0, FRAMES + len(section), 0, 0, len(hdr), 1)]
    head = b"\x7fELF" + bytes([2, 1, 1]).ljust(12, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, len(phdrs), 64, 0, 0)
    return head + b"".join(struct.pack("<IIQQQQQQ", *p) for p in phdrs) + section + hdr


def unwind_build_seeds():
    plt = [0x0F, 11, 0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22]
    deref = [0x0F, 5, 0x77, 40, 0x06, 0x23, 8, 0x41, 0x0F, 6, 0x71, 0x78, 0x06, 0x08, 8, 0x22]
    signal = [0x0F, 4, 0x77, 0xA0, 1, 0x06, 0x10, 16, 3, 0x77, 0xA8, 1]
    for cpu in range(3):
        frame = [0x41, 0x0E, 16, 0x86, 2, 0x02, 3, 0x0D, 6, 0x0A, 0x03, 3, 0, 0x0C, 7, 8, 0x04, 3, 0, 0, 0,
                 0x0B, 0xC6, 0x07, RA[cpu]]
        rare = [0x05, 6, 3, 0x41, 0x11, 6, 0x7F, 0x41, 0x2F, 6, 2, 0x41, 0x14, 7, 0, 0x41, 0x15, 6, 1, 0x41,
                0x16, 6, 3, 0x77, 24, 0x06, 0x41, 0x09, 6, 3, 0x08, 6, 0x06, 6, 0x2E, 8, 0x2D, 0x12, 7, 0x7F,
                0x13, 0x7E, 0x1D, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 6, 3, 0x08, 32, 0x1C]
        section = cie(cpu)
        for n, program in enumerate([frame, rare, plt, deref]):
            section = fde(section, 0x1000 * n + 0x100, 0x800, program)
        for parts, kind in (SECTIONS, "sections"), (HDR, "hdr"):
            yield f"{kind}-{cpu}", bytes([cpu + 3, parts]) + section
        yield f"file-{cpu}", bytes([0, 0]) + elf(MACHINES[cpu], section)
        section = cie(cpu, b"PLRS", bytes([SDATA4_HERE, 1, 2, 3, 4, SDATA4_HERE, SDATA4_HERE]))
        section = fde(section, 0x20000, 0x10, signal)
        yield f"signal-{cpu}", bytes([cpu + 3, SECTIONS]) + section
        names = [b"runtime.text", b"runtime.etext", b"runtime.mcall", b"gogo", b"runtime.duffzero"]
        places = [(0x100, 0), (0x20000, 0), (0x2000, 0x60), (0x1000, 0x2000), (0x1FFF0, 0x100)]
        text = b"\0".join(names) + b"\0"
        section = b""
        for name, (start, size) in zip(names, places):
            section += struct.pack("<IBBHQQ", 24 * len(names) + text.index(name + b"\0"), 2, 0, 1,
                                   CODE + start, size)
        yield f"go-{cpu}", bytes([cpu + 3, SECTIONS | GO | SYMBOLS]) + section + text
        for version in 1, 4:
            parts = SECTIONS | DEBUG | (COMPRESSED if version == 4 else 0)
            yield f"debug{version}-{cpu}", bytes([cpu + 3, parts]) + debug_frame(version, cpu)


def code_seeds():
    """Code of the kinds that tests/unit/unwind/flow.c has, and pieces of musl's"""
    frames = bytes.fromhex("41575548 83ec1831ed488d64 24185d415fc3 554889e54883e4e04829c4c9c3")
    calls = bytes.fromhex("50e807000000e80500000090 9031c0c3ebfe")
    switch = bytes.fromhex("5083ff01771489ff488d1510000000486304ba4801d03effe09058c390 50ebfe"
                           "f0ffffff f3ffffff")
    clone = bytes.fromhex("31c0b0384989fb4889d74c89c24d89c84c8b5424084d89d94883e6f04883ee08"
                          "48890e0f0585c0750f31ed5f41ffd189c731c0b03c0f05f4c3")
    start = bytes.fromhex("4831ed4889e7488d35000000004883e4f0e8030000009090 9050c3")
    restorer = bytes.fromhex("9048c7c00f0000000f05")
    vectors = bytes.fromhex("c5fd6f07c4e3fd00c00162f1fe486f4601660f3a0fc108c3")
    for name, code, second in [("frames", frames, 18), ("calls", calls, 13), ("switch", switch, 29),
                               ("clone", clone, 0), ("start", start, 25), ("restorer", restorer, 1),
                               ("vectors", vectors, 0)]:
        yield f"code-{name}", bytes([255, second]) + code


def jitdump_seeds():
    """daemon/watch/jitdump.c"""
    def record(kind, body):
        return struct.pack("<IIQ", kind, 16 + len(body), 0) + body

    def load(address, index, name):
        return record(0, struct.pack("<IIQQQQ", 1, 1, address, address, 8, index) + name + b"\0" + 8 * b"\x90")

    header = struct.pack("<6IQQ", 0x4A695444, 1, 40, 62, 0, 1, 0, 0)
    moved = record(1, struct.pack("<IIQQQQQ", 1, 1, 0x3000, 0x1000, 0x3000, 8, 5))
    lines = record(2, struct.pack("<QQQII", 0x1000, 1, 0x1000, 7, 0) + b"a.js\0")
    yield "loads", header + load(0x1000, 5, b"JS:*fib a.js:1") + lines + load(0x2000, 6, b"b") + moved + record(3, b"")


def answers_seeds():
    """daemon/symbol/answers.c"""
    def piece(answers, frames, strings, note=0):
        return (struct.pack("<6I", 0x3173616B, len(answers), len(frames), len(strings), note, 0) +
                b"".join(struct.pack("<QQII", *a) for a in answers) +
                b"".join(struct.pack("<6I", *f) for f in frames) + strings)

    strings = b"\0inner(int)\0_Z5inneri\0/src/a.c\0outer\0caf\xc3\xa9\0"
    inner, system, file, outer, utf8 = (strings.index(s) for s in (b"inner(", b"_Z", b"/src", b"outer", b"caf"))
    frames = [(inner, system, file, 7, 3, 1), (outer, outer, 0, 0, 0, 0), (utf8, utf8, file, 9, 0, 0)]
    yield "none", piece([], [], b"\0")
    yield "three", piece([(16, 0x1010, 0, 2), (32, 0x1020, 0, 0), (48, 0x1030, 2, 1)], frames, strings, file)
    yield "shared", piece([(i, i, 1, 2) for i in range(40)], frames, strings)


def main():
    (CORPUS / "answers").mkdir(exist_ok=True)
    for name, data in answers_seeds():
        (CORPUS / "answers" / name).write_bytes(data)
    (CORPUS / "jitdump").mkdir(exist_ok=True)
    for name, data in jitdump_seeds():
        (CORPUS / "jitdump" / name).write_bytes(data)
    for name, data in code_seeds():
        (CORPUS / "unwind_build" / name).write_bytes(data)
    for name, data in walk_seeds():
        (CORPUS / "walk" / name).write_bytes(data)
    for name, data in unwind_build_seeds():
        (CORPUS / "unwind_build" / name).write_bytes(data)


main()
