#!/bin/sh
# All benchmarks, or those named: run.sh BUILD [handler|attach|coverage|overhead|symbols|unwind|unwind-build]...
# Ratios within one run mean something; absolute times only on a quiet machine. The Python ones say
# with --help how to run a part of them.
set -eu
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- handler attach coverage overhead symbols unwind unwind-build
for name in "$@"; do
	case $name in
	handler | unwind-build) "$build/tests/bench/bench-$name" ;;
	attach) "$here/$name.sh" "$build" ;;
	coverage | overhead | symbols | unwind) python3 "$here/$name.py" "$build" ;;
	*)
		echo "bench: no benchmark $name; there are handler, attach, coverage, overhead, symbols, unwind, unwind-build" >&2
		exit 2
		;;
	esac
	echo
done
