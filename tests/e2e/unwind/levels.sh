#!/bin/bash
# levels.sh PROGRAM: no whole stack leaves a frame out, has one twice or one that was not there, in
# whatever order frames of all kinds come.
. "$(dirname "$0")/unwind.sh"

options=(-r 3999)
profile "$VICTIMS/$1" 3
are_whole prof.kitprof 99
awk '
	{
		weight = $NF
		sub(/ [0-9]+$/, "")
		frames = split($0, frame, ";")
		for (at = 1; at <= frames && frame[at] != "main"; at++)
			;
		all += weight
		if ($0 ~ /\[truncated\]/)
			next
		if (at > frames) {
			outside += weight # before main, or after it
			next
		}
		level = 0
		below_sort = 0
		for (at++; at <= frames; at++) {
			now = ""
			if (match(frame[at], /^l[0-9]+_/))
				now = substr(frame[at], 2, RLENGTH - 2)
			else if (match(frame[at], /^sort_at_[0-9]+/))
				now = substr(frame[at], 9, RLENGTH - 8)
			if (now == "")
				continue
			if (now != level + 1 && !(below_sort && now == level && frame[at] ~ /_compare/)) {
				print "not a way from main: " $0
				wrong += weight
				next
			}
			level = now
			below_sort = frame[at] ~ /^sort_at_/
			deepest = level > deepest ? level : deepest
		}
	}
	END {
		printf "%d of %d are wrong, %d without main\n", wrong, all, outside
		exit !(all && deepest == 6 && wrong * 2000 <= all && outside * 100 <= all)
	}' prof.folded >verdict.txt || fail "$(tail -n 5 verdict.txt)"
tail -n 1 verdict.txt
