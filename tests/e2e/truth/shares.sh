#!/bin/bash
# shares.sh WAY: CPU time of 50 : 30 : 15 : 5 comes out as that, whatever clock and way in; and 8 equal
# threads as equal.
. "$(dirname "$0")/truth.sh"

portions="fifty=50 thirty=30 fifteen=15 five=5"

check() {
	account prof.kitprof 95 105
	kept=$(raw_end prof.kitprof kept)
	at_least samples "$kept" "$1"
	shares prof.folded "$kept" $portions
}

case $1 in
run)
	run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 20 1 0
	has err.log 'asked 999 Hz, got (9[5-9]|10[0-4])'
	check 400 # 2000 where there are task-clock events
	;;
timer)
	run_says 0 "$KITPROF" run --clock timer -- "$VICTIMS/shares" 30 1 0
	has err.log '\(cpu-timer, SIG'
	has_not prof.flat task-clock
	check 300
	;;
record)
	need_ptrace
	burner victim "$VICTIMS/shares" 200 1 0
	run_says 0 "$KITPROF" record --pid "$pid" -d 6
	has err.log 'asked 99 Hz, got (9[5-9]|10[0-3]) '
	check 100
	;;
999 | 4000)
	run_says 0 "$KITPROF" run -r "$1" -- "$VICTIMS/shares" 60 1 0
	sigma=2
	account prof.kitprof 97 103
	shares prof.folded "$(raw_end prof.kitprof kept)" $portions
	;;
99)
	# A function that runs for less than a period is hit or not, as by chance: one of twenty such
	# profiles is more than two sigma off. Of two out of three that is not expected.
	sigma=2
	good=0
	for turn in 1 2 3; do
		run_says 0 "$KITPROF" run -r 99 -- "$VICTIMS/shares" 60 1 0
		account prof.kitprof 97 103
		if (shares prof.folded "$(raw_end prof.kitprof kept)" $portions); then
			good=$((good + 1))
		fi
	done
	[ "$good" -ge 2 ] || fail "shares are more than two sigma off in $((3 - good)) profiles of 3"
	;;
equal)
	run_says 0 "$KITPROF" run -r 999 -- "$VICTIMS/shares" 12 8 0
	account prof.kitprof 90 103
	# What each has in the profile against what the kernel says that it used.
	"$RAWDUMP" prof.kitprof | awk '
		function field(key, at) {
			for (at = 2; at <= NF; at++)
				if (index($at, key "=") == 1)
					return substr($at, length(key) + 2)
		}
		$1 == "tally" { used[field("tid")] += field("cpu_ns") }
		END { for (tid in used) print tid, used[tid] }' >used.txt
	"$KITPROF" report --stats --json prof.kitprof >stats.json || fail "report --stats --json"
	python3 - >equal.txt <<'END' || fail "stats: $(head -c 300 stats.json)"
import json
used = {int(tid): int(ns) for tid, ns in (line.split() for line in open("used.txt"))}
for t in json.load(open("stats.json"))["threads"]:
    if t["name"].startswith("w"):
        print(t["name"], "%.4f" % (t["cpu_explained_ns"] / used[t["tid"]]))
END
	sort -k2n -o equal.txt equal.txt
	equal "number of threads" "$(wc -l <equal.txt)" 8
	awk 'NR == 1 { least = $2 } { most = $2 } END { exit !(least > 0 && most <= least * 1.02) }' equal.txt ||
		fail "threads differ by more than 2 %: $(tr '\n' ' ' <equal.txt)"
	;;
threads)
	run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 6 8 0
	check 600
	"$RAWDUMP" prof.kitprof | awk '
		$1 == "thread" { name[substr($3, 5)] = substr($4, 6) }
		$1 == "sample" { tid = substr($3, 5); print "threads;" (tid in name ? name[tid] : "?") }' |
		sort | uniq -c | awk '{ print $2, $1 }' >threads.folded
	shares threads.folded "$kept" w0=12.5 w1=12.5 w2=12.5 w3=12.5 w4=12.5 w5=12.5 w6=12.5 w7=12.5
	;;
esac
