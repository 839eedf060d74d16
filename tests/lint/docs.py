#!/usr/bin/env python3
"""Whether the documents say what is there.

    docs.py ROOT KITPROF KITPROFD

Every option in --help of a command is in its man page, with the same letter and value, and the
other way round; so are the formats. Every file or folder of the project that a document names
exists, every link between documents leads somewhere. No document names a path of somebody's
machine. The man pages are sound, where man is installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# program: its man page, and its commands; a section of options says which of these it is of
PAGES = {
    "kitprof": ("docs/man/kitprof.1", ["run", "record", "report", "on", "off", "status", "sources", "cleanup"]),
    "kitprofd": ("docs/man/kitprofd.8", ["kitprofd"]),
}

# "  -p, --pid PID   text", "      --depth N   text"
HELP_OPTION = re.compile(r"^  (?:(-\w), |    )--([\w-]+) ?(\[=\w+\]|\w\S*)?(?:  |$)", re.M)
HELP_COMMAND = re.compile(r"^  ([a-z]+) {2,}\S", re.M)
HELP_FORMAT = re.compile(r"^  ([a-z]\w*) {2,}\S", re.M)
PAGE_OPTION = re.compile(r"^\.It (?:Fl (\w) , )?Fl \\-([\w-]+)(?: (?:Ar|Ns) (.*))?$", re.M)

# what documents may name without its being a file of the project
MADE = re.compile(r"^(?:build|prof\.|daemon/.*<|agent/.*<|common/.*<)")
SOURCE = re.compile(r"[A-Z]+\.md|[\w-]+\.(?:sh|py|c|h|S|go|proto)")
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PLAIN = re.compile(r"(?<![\w./-])((?:docs|tests|daemon|agent|common|proto)/[\w./*-]*[\w*/])")
MACHINE = re.compile(r"(?<![\w.])/(?:root|home|work|tmp(?!/perf-PID\.map`)|Users)/")


def options_of_help(text):
    """name -> (letter, value)"""
    return {name: (letter[1:], value) for letter, name, value in HELP_OPTION.findall(text)}


def formats_of_help(text):
    return set(HELP_FORMAT.findall(text.partition("\nFormats:\n")[2]))


def options_of_page(text, commands):
    """command -> name -> (letter, value)"""
    found = {command: {} for command in commands}
    part = text.split(".Sh OPTIONS", 1)[1].split("\n.Sh ", 1)[0]
    for section in part.split("\n.Ss ")[1:]:
        title, body = section.split("\n", 1)
        of = commands if "every command" in title else re.findall(r"\w+", title)
        for letter, name, value in PAGE_OPTION.findall(body):
            plain = re.sub(r"(?: Ns )?Op ([:=]) Ns Ar (\w+)", r"[\1\2]", value)
            for command in of:
                if command in found:
                    found[command][name] = (letter, plain)
    return found


def compare_options(command, shown, written):
    found = []
    for name in sorted(shown.keys() | written.keys()):
        if name not in written:
            found.append(f"{command}: --{name} is in --help and not in the man page")
        elif name not in shown:
            found.append(f"{command}: --{name} is in the man page and not in --help")
        elif shown[name] != written[name]:
            found.append(f"{command}: --{name}: --help has {shown[name]}, the page {written[name]}")
    return found


def help_of(*words):
    return subprocess.run([*words, "--help"], check=True, capture_output=True, text=True).stdout


def check_page(root, program, path):
    page, commands = PAGES[program]
    text = (root / page).read_text()
    written = options_of_page(text, commands)
    found = []
    if program not in commands and set(HELP_COMMAND.findall(help_of(path))) != set(commands):
        found.append(f"{program} --help lists other commands than {commands}")
    for command in commands:
        words = [path] if command == program else [path, command]
        shown = help_of(*words)
        if not options_of_help(shown):
            found.append(f"{command}: --help shows no options")
        found += compare_options(command, options_of_help(shown), written[command])
        found += [f"{page}: format {name} is missing" for name in formats_of_help(shown)
                  if not re.search(rf"^\.(?:It )?Li {name}\b", text, re.M)]
    return found


def check_markup(path):
    """What man complains about."""
    if not shutil.which("man"):
        print("man is not installed: the markup of man pages is not checked")
        return []
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "MANPAGER": "cat", "MANWIDTH": "80"}
    command = ["man", "--warnings", "-l", path]
    made = subprocess.run(command, capture_output=True, text=True, env=env)
    if made.returncode or len(made.stdout) < 500:
        return [f"{path}: man does not render it"]
    return [f"{path}: {line}" for line in made.stderr.splitlines()]


def exists(root, name, tops):
    if "/" in name or name in tops:
        return any(root.glob(name.rstrip("/")))
    return any(True for top in tops if (root / top).is_dir() for _ in (root / top).rglob(name))


def names_in(text, tops):
    """Files and folders of the project that a text names."""
    for code in CODE.findall(text):
        for word in code.split():
            name = word.rstrip(".,:;)")
            if "/" in name and name.split("/")[0] in tops and not MADE.match(name):
                yield name
            elif name in tops or SOURCE.fullmatch(name):
                yield name
    yield from PLAIN.findall(CODE.sub("", LINK.sub("", text)))


def check_text(root, path, tops):
    text = (root / path).read_text()
    where = (root / path).parent
    found = [f"{path}: names {name}, which is not there"
             for name in names_in(text, tops) if not exists(root, name, tops)]
    found += [f"{path}: link to {target}, which is not there" for target in LINK.findall(text)
              if "://" not in target and not (where / target).exists()]
    found += [f"{path}:{i}: a path of somebody's machine: {line.strip()}"
              for i, line in enumerate(text.splitlines(), 1) if MACHINE.search(line)]
    return found


def documents(root):
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "docs").rglob("*.[1-9]")]
    return sorted(path.relative_to(root).as_posix() for path in paths)


def tops_of(root):
    return {path.name for path in root.iterdir() if not path.name.startswith((".git", "build"))}


def self_test():
    missed = []
    shown = options_of_help("  -p, --pid PID    x\n      --depth N    y\n  -q, --quiet      z\n"
                            "      --maybe[=N]  m\n")
    page = ".Sh OPTIONS\n.Ss Of run\n.It Fl p , Fl \\-pid Ar PID\n.It Fl \\-depth Ar M\n"
    page += ".It Fl x , Fl \\-extra\n.It Fl \\-maybe Ns Op = Ns Ar N\n"
    if shown != {"pid": ("p", "PID"), "depth": ("", "N"), "quiet": ("q", ""), "maybe": ("", "[=N]")}:
        missed.append("options of --help")
    if len(compare_options("run", shown, options_of_page(page, ["run"])["run"])) != 3:
        missed.append("options that differ")
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work)
        (root / "daemon").mkdir()
        (root / "daemon/here.c").touch()
        (root / "bad.md").write_text(
            "`daemon/gone.c` [x](gone.md) see daemon/lost.h\nin /home/me/x\n`NOTHERE.md` `no.sh`\n")
        (root / "good.md").write_text(
            "`daemon/here.c`, `daemon/*.c`, `here.c` [x](good.md) daemon/here.c, daemon/\n"
            "`build/kitprof`\n")
        bad = ".Dd x\n.Dt BAD 1\n.Os\n.Sh NAME\n.Bl -tag\n.It x\n" + "word\n" * 200
        (root / "bad.1").write_text(bad)
        if len(check_text(root, "bad.md", tops_of(root))) != 6:
            missed.append("bad names")
        missed += check_text(root, "good.md", tops_of(root))
        if shutil.which("man") and not check_markup(str(root / "bad.1")):
            missed.append("bad markup")
    return [f"self-test: {what}" for what in missed]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = self_test()
    for program, path in zip(PAGES, sys.argv[2:4]):
        found += check_page(root, program, path)
        found += check_markup(str(root / PAGES[program][0]))
    tops = tops_of(root)
    paths = documents(root)
    for path in paths:
        found += check_text(root, path, tops)
    print(*found, sep="\n")
    print(f"{len(paths)} documents, {len(found)} complaints")
    return 1 if found or len(paths) < 5 else 0


sys.exit(main())
