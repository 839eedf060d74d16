#!/bin/sh
# All benchmarks, or those named: run.sh BUILD [handler|attach|overhead|unwind-build]...
# Ratios within one run mean something; absolute times only on a quiet machine.
set -eu
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- handler attach overhead unwind-build
for name in "$@"; do
	case $name in
	handler | unwind-build) "$build/tests/bench/bench-$name" ;;
	attach | overhead) "$here/$name.sh" "$build" ;;
	*)
		echo "bench: no benchmark $name; there are handler, attach, overhead, unwind-build" >&2
		exit 2
		;;
	esac
	echo
done
