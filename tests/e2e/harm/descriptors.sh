#!/usr/bin/env bash
# descriptors.sh: however few descriptors kitprof may have, what it cannot finish it has not begun, or
# undoes.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# record_with N: a window by a kitprof that may open so many files.
record_with() {
	(ulimit -n "$1" &&
		exec "$KITPROF" record --pid "$target" -d 0.05 -r 999 --no-folded --no-flat -o out.folded) 2>err
}

victim burn burn 4 yield
target=$pid
proc_state "$target" before
failed=0
for ((n = 4; n < 40; n++)); do
	record_with "$n"
	status=$?
	case $status in
	0 | 3) ;;
	1)
		((failed += 1))
		grep -q '^kitprof: ' err || fail "no reason with $n descriptors: $(cat err)"
		;;
	*) fail "$n descriptors: status $status: $(cat err)" ;;
	esac
	must_live "$target" "with $n descriptors"
	same_state "$target" before "with $n descriptors: $(cat err)"
done
[ "$failed" -gt 0 ] || fail "4 descriptors are enough"
[ "$failed" -lt 36 ] || fail "39 descriptors are not enough: $(cat err)"
ends_well "$target" burn
