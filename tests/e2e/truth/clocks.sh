#!/bin/bash
# clocks.sh CLOCK: at any rate the samples of a busy program add up to its CPU time.
. "$(dirname "$0")/truth.sh"

# busy RATE ROUNDS LOW: ROUNDS tenths of a second and more of CPU time; LOW percent are explained. On
# a busy machine it takes a while until kitprof, from outside, has opened an event.
busy() {
	run_says 0 "$KITPROF" run -r "$1" --clock "$clock" -- "$VICTIMS/shares" "$2" 1 0
	account prof.kitprof "$3" 105
	[ "$clock" != timer ] || has err.log '\(cpu-timer, SIG'
	# A counter that cannot be used is named, and the clock that took its place.
	[ "$clock" != cycles ] || has err.log '\(cpu-timer \+ cycles, SIG|hardware.* counter'
}

clock=$1
[ "$clock" != task ] || need_perf
case $clock in
timer)
	busy 10 30 95
	;;
*)
	# An event's first sample comes after a whole period.
	busy 10 30 90
	;;
esac
for rate in 99 250 1000 4000 10000; do
	busy $rate 15 88
done
