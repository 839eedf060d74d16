#!/bin/bash
# Libraries that come and go at the same addresses while they are sampled: nothing crashes, and what
# is called whole is right, but for what is seen in the moments until the change is known. What ran in
# one library is not said to have run in the one that came after it.
. "$(dirname "$0")/unwind.sh"

options=(-r 3999)
profile "$VICTIMS/plugins" 4 "$VICTIMS"/plugin_*.so
grep -q '^done' out || fail "the program did not come to its end: $(cat out)"
read -r all found <<<"$(samples prof.kitprof)"
[ "$all" -ge 1000 ] || fail "$all samples only"
awk '
	{
		weight = $NF
		sub(/ [0-9]+$/, "")
		all += weight
		if ($0 ~ /\[truncated\]/)
			cut += weight
		else if ($0 ~ /;main;/ || $0 ~ /^plugins;_start;_dl_start/)
			right += weight
		else {
			wrong += weight
			print
		}
		# By the lengths of the loops half of all is in this one.
		gamma += $0 ~ /;in_gamma(;|$)/ ? weight : 0
		inside += $0 ~ /;main;churn;visit;plugin_work;in_[a-z]+(;|$)/ ? weight : 0
	}
	END {
		printf "%d stacks: %.1f %% cut, %.2f %% wrong, %.1f %% in libraries, %.1f %% in one\n", all,
			100 * cut / all, 100 * wrong / all, 100 * inside / all, 100 * gamma / all
		exit !(wrong * 200 <= all && cut * 2 <= all && inside * 4 >= all && gamma * 100 >= all * 38)
	}' prof.folded >verdict.txt || fail "$(tail -n 5 verdict.txt)"
tail -n 1 verdict.txt
