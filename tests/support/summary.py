#!/usr/bin/env python3
"""Counts the tests of one or more meson build directories.

Names those that failed, were skipped or did not run although they were asked for (meson-logs/asked.txt,
what meson test --list prints), and ends with "N passed, N failed, N skipped". Exits 1 when one failed
or did not run, when none ran, or when a directory has no results at all.
"""
import json
import pathlib
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def results(build):
    log = pathlib.Path(build) / "meson-logs" / "testlog.json"
    if not log.exists():
        print(f"{build}: no test results")
        return [("no results", "ERROR")]
    with log.open() as lines:
        tests = [json.loads(line) for line in lines]
    return [(test["name"], test["result"]) for test in tests] + missing(build, tests)


def missing(build, tests):
    """Those that were asked for and have no result."""
    asked = pathlib.Path(build) / "meson-logs" / "asked.txt"
    if not asked.exists():
        return []
    # "kitprof:unit / name"; a result's name is the same.
    names = [line.rstrip("\n").lstrip() for line in asked.read_text().splitlines() if " / " in line]
    ran = {test["name"].strip() for test in tests}
    return [(name, "did not run") for name in names if name.strip() not in ran]


def main(builds):
    passed = failed = skipped = 0
    for build in builds:
        for name, result in results(build):
            if result in PASSED:
                passed += 1
            elif result in SKIPPED:
                skipped += 1
                print(f"skipped: {name} ({pathlib.Path(build).name})")
            else:
                failed += 1
                print(f"FAILED: {name} ({pathlib.Path(build).name}): {result}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
