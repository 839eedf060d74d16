#!/usr/bin/env bash
# churn.sh threads|programs
#
# Threads and processes that begin and end at any moment of attaching, sampling and detaching.
. "$(dirname "$0")/../lib.sh"
need_ptrace

threads() {
	local rate
	victim churn churn threads
	for rate in 99 999; do
		cycles 40 "$pid" 0.02 "$rate"
		has_agent "$pid" && fail "the agent is still in it after the cycles at $rate Hz"
		cycles 1 "$pid" 1.5 "$rate"
		has_agent "$pid" && fail "the agent is still in it after a window at $rate Hz"
		has_our_timers "$pid" && fail "its timers too"
		must_work "$pid" "after $rate Hz"
	done
	ends_well "$pid" churn
}

# The process goes on after its main thread, whose /proc/PID/maps is empty then.
leader() {
	victim leader churn leader "$1"
	[ "$1" -gt 0 ] || until_true 5 in_state "$pid" Z || fail "its main thread does not end"
	[ "$1" -gt 0 ] || cycles 10 "$pid" 0.03 999
	"$KITPROF" record --pid "$pid" -d 1 -r 999 --no-raw --no-flat -q -o leader.folded 2>err ||
		fail "record says $?: $(cat err)"
	grep -q burn_to_end leader.folded || fail "its threads are not in the profile: $(cat leader.folded)"
	in_state "$pid" Z || fail "its main thread did not end"
	grep -q memfd:kitprof /proc/"$pid"/task/*/maps && fail "the agent is still in it"
	has_our_timers "$pid" && fail "its timers too"
	kill -TERM "$pid"
	wait "$pid" || fail "it ends with $?"
}

# All threads sleep: those that come are armed in a stop. No harm, no hang.
sleepers() {
	victim sleepers churn sleepers 20
	cycle "$pid" 1 99
	[ $? -eq 3 ] || [ $? -eq 0 ] || fail "record fails: $(cat cycle.log)"
	must_live "$pid" "after a window of sleepers"
	has_agent "$pid" && fail "the agent is still in it"
	ends_well "$pid" sleepers
}

# Programs that end at a random moment of it all.
short_lived() {
	local i status target
	for ((i = 0; i < 60; i++)); do
		start short timeout "0.$(printf %03d $((5 + RANDOM % 90)))" "$VICTIMS/burn" 3
		sleep 0.00$((RANDOM % 9))
		target=$(pgrep -P "$pid" | head -n 1)
		[ -n "$target" ] || continue
		timeout -s KILL 20 "$KITPROF" record --pid "$target" -d 0.04 -r 999 --no-raw --no-folded --no-flat \
			-q 2>err
		status=$?
		case $status in
		0 | 1 | 3) ;;
		*) fail "record of a program that ends says $status: $(cat err)" ;;
		esac
		until_true 5 has_ended "$target" || fail "it does not end: state $(state_of "$target")"
		wait "$pid"
		# SIGTERM, as by timeout, or its own exit after it.
		status=$?
		[ "$status" -eq 124 ] || fail "the program ends with $status"
	done
}

case $1 in
threads)
	threads
	leader 0
	leader 500
	sleepers
	;;
programs)
	short_lived
	;;
esac
