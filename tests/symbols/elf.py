"""ELF files for the conformance suite: written from nothing, read, and changed. Little-endian, 64 bits."""
import struct

FUNC, OBJECT, NOTYPE, IFUNC = 2, 1, 0, 10
LOCAL, GLOBAL, WEAK = 0, 1, 2
PT_LOAD = 1
PAGE = 0x1000


class Symbol:
    """section: its number in the list that write() gets, from 1; "abs"; or None (undefined)."""

    def __init__(self, name, value, size=0, kind=FUNC, bind=GLOBAL, section=1):
        self.name = name.encode() if isinstance(name, str) else name
        self.value, self.size, self.kind, self.bind, self.section = value, size, kind, bind, section

    def packed(self, name_at):
        number = {None: 0, "abs": 0xFFF1}.get(self.section, self.section)
        return struct.pack("<IBBHQQ", name_at, self.bind << 4 | self.kind, 0, number, self.value, self.size)


def string_table(names):
    """The table and where each name is in it; equal names once."""
    table, at = bytearray(b"\0"), {b"": 0}
    for name in names:
        if name not in at:
            at[name] = len(table)
            table += name + b"\0"
    return bytes(table), at


def write(path, symbols, sections=((".text", 0x401000, 0x1000, "x"),)):
    """
    A program of sections (name, address, size, "x": code, "": data, "-": marked as code but
    not loaded), each in a segment of its own,
    and a symbol table. A symbol may have a number in place of a name: where that is in the string
    table of all the other names, so that names can share bytes.
    """
    out = bytearray(64 + 56 * len(sections))
    headers, loads = [bytes(64)], []
    names = [".symtab", ".strtab", ".shstrtab"]
    shstrtab, at = string_table([s[0].encode() for s in sections] + [n.encode() for n in names])
    for name, address, size, flags in sections:
        offset = -(-len(out) // PAGE) * PAGE + address % PAGE
        out += bytes(offset - len(out)) + b"\xcc" * size
        headers.append(struct.pack("<IIQQQQIIQQ", at[name.encode()], 1, {"x": 6, "": 2, "-": 4}[flags], address, offset, size, 0, 0, 16, 0))
        loads.append(struct.pack("<IIQQQQQQ", PT_LOAD, 5 if flags else 4, offset, address, address, size, size, PAGE))
    strings, name_at = string_table([s.name for s in symbols if isinstance(s.name, bytes)])
    table = Symbol("", 0, 0, 0, 0, None).packed(0)
    for s in sorted(symbols, key=lambda s: s.bind != LOCAL):
        table += s.packed(name_at[s.name] if isinstance(s.name, bytes) else s.name)
    locals_ = 1 + sum(s.bind == LOCAL for s in symbols)
    strings_number = len(sections) + 2
    for name, kind, data, link, info, entry in (
        (b".symtab", 2, table, strings_number, locals_, 24),
        (b".strtab", 3, strings, 0, 0, 0),
        (b".shstrtab", 3, shstrtab, 0, 0, 0),
    ):
        out += bytes(-len(out) % 8)
        headers.append(struct.pack("<IIQQQQIIQQ", at[name], kind, 0, 0, len(out), len(data), link, info, 8, entry))
        out += data
    out += bytes(-len(out) % 8)
    section_headers = len(out)
    out += b"".join(headers)
    out[:64] = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 64, section_headers, 0, 64, 56, len(loads),
        64, len(headers), len(headers) - 1,
    )
    out[64 : 64 + 56 * len(loads)] = b"".join(loads)
    path.write_bytes(out)
    return path


class Segment:
    def __init__(self, raw):
        self.type, self.flags, self.offset, self.vaddr, _, self.filesz, self.memsz, _ = raw

    @property
    def executable(self):
        return bool(self.flags & 1)


class File:
    """What is asked of one that a linker wrote."""

    def __init__(self, path):
        self.path = path
        self.data = path.read_bytes()
        phoff, self.shoff = struct.unpack_from("<QQ", self.data, 32)
        phnum, _, self.shnum, self.shstrndx = struct.unpack_from("<HHHH", self.data, 56)
        self.segments = [Segment(struct.unpack_from("<IIQQQQQQ", self.data, phoff + 56 * i)) for i in range(phnum)]

    def loads(self):
        return [s for s in self.segments if s.type == PT_LOAD]

    def code(self):
        return [s for s in self.loads() if s.executable]

    def offset(self, address):
        """As the kernel maps it."""
        for s in self.loads():
            if s.vaddr <= address < s.vaddr + s.filesz:
                return address - s.vaddr + s.offset
        raise AssertionError(f"{self.path}: no segment has {address:#x}")


def without_section_headers(path, to):
    """What sstrip leaves."""
    data = bytearray(path.read_bytes())
    (shoff,) = struct.unpack_from("<Q", data, 40)
    data[shoff:] = b""
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HHH", data, 58, 0, 0, 0)
    to.write_bytes(data)
    return to
