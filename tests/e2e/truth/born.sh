#!/bin/bash
# born.sh run|record CLOCK: threads that are born in mid-window, while all others sleep, are sampled
# and named.
. "$(dirname "$0")/truth.sh"

need_ptrace
case $1 in
*-task) need_perf ;;
esac

case $1 in
run-*)
	clock=${1#run-}
	run_says 0 "$KITPROF" run --clock "$clock" -- "$VICTIMS/born" 3
	;;
record-*)
	clock=${1#record-}
	start victim "$VICTIMS/born" 60
	until_true 20 says victim ready || fail "the victim does not get ready"
	run_says 0 "$KITPROF" record --clock "$clock" -r 200 --pid "$pid" -d 3
	;;
esac
account prof.kitprof 70 105
"$RAWDUMP" prof.kitprof >raw.txt
awk '
	$1 == "thread" { name[$3] = $4 }
	$1 == "sample" { split($4, weight, "="); sum[$3] += weight[2]; seen[name[$3]] = 1 }
	END {
		for (tid in name) {
			printf "%s %s %d ms\n", tid, name[tid], sum[tid] / 1e6
			# The first and the last one may lie half outside of the window.
			if (name[tid] ~ /^comm=born[0-9]+$/)
				born++
			if (name[tid] ~ /^comm=born[0-9]+$/ && sum[tid] >= 150e6)
				whole++
		}
		exit !(born >= 2 && whole >= born - 2)
	}' raw.txt >threads.txt || fail "threads are missing: $(cat threads.txt)"
has prof.folded ';live '
