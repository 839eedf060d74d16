#!/bin/bash
# matrix.sh PROGRAM: one way to compile and link. It runs unharmed and its functions are named.
. "$(dirname "$0")/truth.sh"

for threads in 1 3; do
	run_says 7 "$KITPROF" run -- "$VICTIMS/$1" 4 "$threads" 7
	equal "the program's output" "$(cat out)" done
	account prof.kitprof 85 110
	previous=100
	for function in fifty thirty fifteen five; do
		share=$(self prof.folded "$function")
		at_least "share of $function" "$share" 2
		at_least "share of the one before $function" "$previous" "$share"
		previous=$share
	done
	at_least "share of fifty" "$(self prof.folded fifty)" 40
done
for thread in w0 w1 w2; do
	"$RAWDUMP" prof.kitprof | awk -v name="comm=$thread" '
		$1 == "thread" && $4 == name { tid = $3 }
		$1 == "sample" && $3 == tid { samples++ }
		END { exit !(samples > 20) }' || fail "thread $thread has no samples"
done
