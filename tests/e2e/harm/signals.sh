#!/usr/bin/env bash
# signals.sh taken|jobs|others
#
# The target's own dealings with signals, against kitprof's use of one.
. "$(dirname "$0")/../lib.sh"
need_ptrace

URG=$(kill -l URG)

# sets MASK SIGNAL: whether a Sig... line of the target has the signal.
sets() {
	local mask
	mask=$(sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status")
	[ $((0x$mask >> ($3 - 1) & 1)) -eq 1 ]
}

# taken_away RATE KIND: the target takes the sampling signal into its own hands in mid-window.
taken_away() {
	local started_at=$SECONDS
	victim signals signals "${@:2}"
	"$KITPROF" record --pid "$pid" -d 30 -r "$1" --no-raw --no-flat -o taken.folded 2>err ||
		fail "$2 at $1 Hz: record says $?: $(cat err)"
	must_work "$pid" "after $2"
	says signals '^changed' || fail "the window ended before the change: $(cat err)"
	[ $((SECONDS - started_at)) -lt 25 ] || fail "the window went on after $2"
	grep -q -i -e SIGURG err || fail "$2: no word about it: $(cat err)"
	grep -q -i -e 'taken' -e 'handle' -e 'replaced' -e 'took' -e 'lost' err || fail "$2: does not say why: $(cat err)"
	[ -s taken.folded ] || fail "$2: what was sampled before is lost"
	has_agent "$pid" && fail "$2: the agent is still in the target"
	has_our_timers "$pid" && fail "$2: its clocks too"
	case $2 in
	ignore) sets "$pid" SigIgn "$URG" || fail "SIGURG is not ignored any more" ;;
	handle) sets "$pid" SigCgt "$URG" || fail "SIGURG is not handled any more" ;;
	*) { sets "$pid" SigCgt "$URG" || sets "$pid" SigIgn "$URG"; } && fail "SIGURG has an action again" ;;
	esac
	ends_well "$pid" signals
}

# A signal that the target uses already is refused, or another one is taken.
in_use() {
	victim signals signals queue "$URG"
	proc_state "$pid" before
	"$KITPROF" record --pid "$pid" -d 0.2 --signal URG --no-raw --no-folded --no-flat -q 2>err &&
		fail "a handled signal was taken"
	grep -q 'SIGURG' err || fail "the reason does not name the signal: $(cat err)"
	"$KITPROF" record --pid "$pid" -d 0.2 -r 999 --no-raw --no-folded --no-flat 2>err || fail "$(cat err)"
	grep -q 'SIGPROF' err || fail "not with SIGPROF: $(cat err)"
	must_work "$pid" "after sampling with SIGPROF"
	ends_well "$pid" signals
}

# No signal of others is lost, doubled or out of order.
queued() {
	victim signals signals queue 40
	cycles 15 "$pid" 0.03 99
	cycles 15 "$pid" 0.03 999
	must_work "$pid" "after the cycles"
	ends_well "$pid" signals
	grep -q 'received [1-9][0-9][0-9]' signals.log || fail "hardly any signal came: $(cat signals.log)"
}

blocked() {
	victim signals signals block
	proc_state "$pid" before
	cycles 15 "$pid" 0.03 99
	cycles 15 "$pid" 0.03 999
	cycles 3 "$pid" 0.03 999 --signal PROF
	same_state "$pid" before "with a thread that blocks all signals"
	ends_well "$pid" signals
}

# A job that is stopped stays so, until its SIGCONT.
stopped() {
	local i ticks
	victim burn burn 2
	kill -STOP "$pid"
	until_true 5 in_state "$pid" T || fail "it does not stop"
	ticks=$(cpu_ticks "$pid")
	for ((i = 0; i < 5; i++)); do
		cycles 1 "$pid" 0.03 999
		in_state "$pid" T || fail "a stopped job is in state $(state_of "$pid")"
	done
	start record "$KITPROF" record --pid "$pid" -d 2 -r 999 --no-raw --no-folded --no-flat
	until_true 5 has_agent "${started[-2]}" || fail "no window: $(cat record.log)"
	sleep 0.2
	[ "$(cpu_ticks "${started[-2]}")" -le $((ticks + 2)) ] || fail "a stopped job ran"
	kill -CONT "${started[-2]}"
	wait "$pid" || fail "record says $?: $(cat record.log)"
	must_work "${started[-2]}" "after SIGCONT"
	ends_well "${started[-2]}" burn
}

# SIGSTOP and SIGCONT at any moment of attaching.
storm() {
	victim signals signals storm
	cycles 60 "$pid" 0.01 999
	must_work "$pid" "in the storm"
	ends_well "$pid" signals
}

case $1 in
taken)
	for rate in 99 999; do
		taken_away "$rate" reset
		taken_away "$rate" ignore "$URG"
		taken_away "$rate" handle "$URG"
	done
	in_use
	;;
jobs)
	stopped
	storm
	;;
others)
	queued
	blocked
	;;
esac
