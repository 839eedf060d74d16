#!/bin/bash
# brief.sh KIND: lives of 5 to 10 ms, far more of them than can be attached to in time, are sampled and named.
. "$(dirname "$0")/truth.sh"

need_ptrace
need_perf

LIVES=60
# On a busy machine what is measured as so many rounds a millisecond may be half of what comes later.
rounds=$(($("$VICTIMS/brief" measure) * 10))

# lives_in FILE: how many threads, or processes, have samples in burn_briefly's program.
lives_in() {
	"$RAWDUMP" "$1" | awk '$1 == "sample" { seen[$3] = 1 } END { for (tid in seen) n++; print n + 0 }'
}

explained() {
	"$KITPROF" report --stats --json prof.kitprof | python3 -c '
import json, sys
print(int(json.load(sys.stdin)["explained_percent"]))'
}

case $1 in
thread | fork | exec)
	run_says 0 "$KITPROF" run -- "$VICTIMS/brief" "$1" $LIVES "$rounds"
	;;
shell)
	# Each is forked by a shell, and waited for before the next one.
	run_says 0 "$KITPROF" run -- sh -c "
		for i in \$(seq $LIVES); do \"$VICTIMS/brief\" live \$i $rounds; done; exit 0"
	;;
esac
account prof.kitprof 50 110
at_least "percent explained" "$(explained)" 90
at_least "lives that were sampled" "$(lives_in prof.kitprof)" $((LIVES * 95 / 100))
at_least "percent in the function that all do" "$(self prof.folded burn_briefly)" 60
case $1 in
thread) has prof.folded '^brief;.*live;burn_briefly [0-9]+$' ;;
exec) has prof.folded '^exe;.*main;burn_briefly [0-9]+$' ;; # of /proc/self/exe
*) has prof.folded '^brief;.*main;.*burn_briefly [0-9]+$' ;;
esac
"$KITPROF" report --stats prof.kitprof >prof.stats
has prof.stats '^clock +inherited, every .* samples$'
has prof.stats '^missed +[0-5] ended'
