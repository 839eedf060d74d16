#!/bin/bash
# overflow.sh cap|cap-record|ring: what there was no room for is counted and said, and the program
# does not notice.
. "$(dirname "$0")/truth.sh"

case $1 in
cap)
	run_says 7 "$KITPROF" run --cap 50 -- "$VICTIMS/shares" 8 1 7
	equal "the program's output" "$(cat out)" done
	equal kept "$(raw_end prof.kitprof kept)" 50
	equal why "$(raw_end prof.kitprof why)" 4
	has err.log '^kitprof: buffer_full: --cap 50 reached after [0-9.]+ s; the window ends there$'
	account prof.kitprof
	# The window that is stated is the one that was sampled, not the program's whole life.
	awk '/ explained / { exit !($3 > 50 && $3 < 150) }' err.log ||
		fail "50 samples do not explain the CPU time of the window"
	;;
cap-record)
	need_ptrace
	burner victim "$VICTIMS/shares" 200 1 0
	target=$pid
	proc_state "$target" before
	run_says 0 "$KITPROF" record --cap 50 -r 999 -d 60 --pid "$target"
	equal kept "$(raw_end prof.kitprof kept)" 50
	equal why "$(raw_end prof.kitprof why)" 4
	has err.log 'buffer_full: --cap 50 reached'
	account prof.kitprof
	must_work "$target" "after --cap"
	same_state "$target" before "after --cap"
	;;
ring)
	# The reader is stopped until the ring's 4096 places are full: a second of CPU time.
	start kitprof "$KITPROF" run -r 4000 -- "$VICTIMS/shares" 12 4 7
	profiler=$pid
	until_true 20 test -s prof.kitprof || fail "sampling does not begin"
	target=$("$RAWDUMP" prof.kitprof | sed -n 's/^process pid=\([0-9]*\) .*/\1/p')
	kill -STOP "$profiler"
	in_state "$profiler" T || until_true 5 in_state "$profiler" T
	until_true 60 uses_more "$target" "$(cpu_ticks "$target")" 200 || fail "the program stands still"
	kill -CONT "$profiler"
	wait "$profiler"
	equal "exit status" $? 7
	says kitprof '^done' || fail "the program did not come to its end"
	at_least "dropped_full" "$(raw_end prof.kitprof dropped_full)" 1
	account prof.kitprof
	dropped=$(raw_end prof.kitprof dropped_full)
	grep -qE "^kitprof: warning: $dropped of [0-9]+ samples were dropped \(ring full $dropped\)" \
		kitprof.log || fail "no warning"
	has prof.flat "dropped $dropped,"
	;;
esac
