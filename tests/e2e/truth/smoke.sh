#!/bin/bash
# The least that must be true: a program is started, named, and its exit status is passed on.
. "$(dirname "$0")/truth.sh"

run_says 7 "$KITPROF" run -- "$VICTIMS/shares" 3 1 7
equal stdout "$(cat out)" done
for file in prof.folded prof.flat prof.kitprof; do
	[ -s "$file" ] || fail "$file is missing or empty"
done
equal "number of files" "$(ls | grep -c ^prof)" 3
has prof.folded '^shares;(.*;)?main;go_round;fifty [0-9]+$'
has prof.flat ' fifty '
has err.log '^kitprof: [0-9]+ samples of shares \(1 thread\)'
has err.log '^kitprof: wrote prof.folded, prof.flat, prof.kitprof$'
account prof.kitprof
