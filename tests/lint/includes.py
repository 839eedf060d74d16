#!/usr/bin/env python3
"""Which room may include what. The table below is the authority; everything else is an error.

Data flows one way, so do the arrows. System headers (<...>) are free. A room may always include
itself. An entry ending in / is a whole room, any other is one header (a room's joint header).
"""

import pathlib
import re
import sys

COMMON = ["common/"]
PROTO = ["common/", "proto/"]
ALLOWED = {
    # room                 may include, besides itself
    "common":              [],
    "proto":               COMMON,
    "agent":               PROTO,
    "daemon/linux":        COMMON,
    "daemon/cache":        COMMON,
    "daemon/symbol":       COMMON + ["daemon/linux/", "daemon/cache/"],
    "daemon/unwind":       COMMON + ["daemon/linux/", "daemon/cache/"],
    "daemon/profile":      COMMON + ["proto/rawfile.h", "proto/ring.h", "daemon/symbol/frame.h",
                                     "daemon/symbol/symbolizer.h", "daemon/symbol/pin.h"],
    "daemon/render":       COMMON + ["daemon/profile/", "profile.pb-c.h"],
    "daemon/drain":        PROTO + ["daemon/linux/"],
    "daemon/attach":       PROTO + ["daemon/linux/"],
    "daemon/clock":        PROTO + ["daemon/linux/"],
    "daemon/watch":        PROTO + ["daemon/linux/", "daemon/symbol/pin.h"],
    "daemon/session":      PROTO + ["daemon/linux/", "daemon/attach/", "daemon/clock/",
                                    "daemon/watch/", "daemon/drain/", "daemon/unwind/",
                                    "daemon/cache/",
                                    "daemon/symbol/pin.h"],
    "daemon/serve":        COMMON + ["proto/control.h", "daemon/linux/", "daemon/profile/utf8.h"],
    "daemon/cmd":          PROTO + ["daemon/"],
    "tests":               ["common/", "proto/", "agent/", "daemon/"],
}
# Calls that belong to one room (tests are free).
OWNED_CALLS = {"ptrace": "daemon/attach"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def room_of(path):
    return next((room for room in ALLOWED if path.startswith(room + "/")), None)


def complaints(path, text):
    """What is wrong with the file of that path (relative to the root)."""
    room = room_of(path)
    if room is None:
        return [f"{path}: no room of the table"]
    found = []
    for header in INCLUDE.findall(text):
        if room == "tests" and "/" not in header:
            continue  # beside the test
        allowed = ALLOWED[room] + [room + "/"]
        if not any(header == a or (a.endswith("/") and header.startswith(a)) for a in allowed):
            found.append(f'{path}: {room} may not include "{header}"')
    code = COMMENT.sub(" ", text)
    for call, owner in OWNED_CALLS.items():
        if room not in (owner, "tests") and re.search(rf"\b{call}\s*\(", code):
            found.append(f"{path}: {call}() is called in {owner} only")
    return found


def self_test():
    bad = [
        ("common/x.c", '#include "proto/ring.h"\n'),
        ("agent/x.c", '#include "daemon/attach/blob.h"\n'),
        ("daemon/symbol/x.c", '  # include "daemon/profile/profile.h"\n'),
        ("daemon/profile/x.c", '#include "daemon/symbol/elffile.h"\n'),
        ("daemon/render/x.c", '#include "render.h"\n'),
        ("daemon/session/x.c", "int f(void) { return (int)ptrace (0, 0, 0, 0); }\n"),
        ("elsewhere/x.c", ""),
    ]
    good = [
        ("daemon/profile/x.c", '#include <stdio.h>\n#include "daemon/symbol/frame.h"\n'),
        ("daemon/session/x.c", '/* ptrace(2) */ const char *s = "ptrace(";\n'),
        ("daemon/attach/x.c", "int f(void) { return (int)ptrace(0, 0, 0, 0); }\n"),
        ("tests/unit/x.c", '#include "rig.h"\n#include "agent/syscall.h"\n'),
    ]
    missed = [path for path, text in bad if len(complaints(path, text)) != 1]
    return missed + [path for path, text in good if complaints(path, text)]


def main():
    root = pathlib.Path(sys.argv[1])
    found = [f"self-test: {path}" for path in self_test()]
    files = 0
    for top in sorted({room.split("/")[0] for room in ALLOWED}):
        for path in sorted((root / top).rglob("*.[chS]")):
            files += 1
            found += complaints(path.relative_to(root).as_posix(), path.read_text())
    print(*found, sep="\n")
    print(f"{files} files, {len(found)} complaints")
    return 1 if found or not files else 0


sys.exit(main())
