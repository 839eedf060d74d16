#!/bin/bash
# --unwind chooses how stacks are walked, and each sample says how it was.
. "$(dirname "$0")/unwind.sh"

# part MODE: how many percent of the stacks of a program that sorts are whole, and main is in them.
part() {
	local all found
	options=(-r 999 --unwind "$1")
	profile "$VICTIMS/places" sort 2
	read -r all found <<<"$(samples prof.kitprof)"
	[ "$all" -ge 300 ] || fail "--unwind $1: $all samples only"
	echo $((found * 100 / all))
}

for mode in auto table slice; do
	[ "$(part "$mode")" -ge 99 ] || fail "--unwind $mode: $(part "$mode") % are whole"
	chain prof.folded ';main;outer;middle;sort_all;.*;compare' 97
done
[ "$(part fp)" -le 50 ] || fail "--unwind fp: $(part fp) % are whole, without frame pointers"
