#!/usr/bin/env bash
# killed.sh target|daemon|moments
#
# Either side may die at any instant, by SIGKILL: what was sampled is kept, and the target lives.
. "$(dirname "$0")/../lib.sh"
need_ptrace

has_samples() {
	[ -s "$1" ] && awk '{ n += $NF } END { exit n < 20 }' "$1"
}

# The target dies while it is recorded: all that was sampled is in the profile.
target_dies_recorded() {
	local recorder status target
	victim burn burn 2
	target=$pid
	start record "$KITPROF" record --pid "$target" -d 60 -r "$1" --no-raw --no-flat -o dead.folded
	recorder=$pid
	until_true 20 has_agent "$target" || fail "no window"
	sleep 1
	kill -KILL "$target"
	wait "$target" 2>/dev/null
	wait "$recorder"
	status=$?
	[ "$status" -eq 0 ] || fail "record says $status when its target is killed: $(cat record.log)"
	has_samples dead.folded || fail "the profile of a killed target is empty: $(cat record.log dead.folded)"
	grep -q 'burn' dead.folded || fail "no function of the killed target in: $(cat dead.folded)"
	rm dead.folded
}

# The same under run, whose exit status is the program's, as a shell would give it.
target_dies_run() {
	local runner status target
	start run "$KITPROF" run -r "$1" --no-raw --no-flat -o dead.folded -- "$VICTIMS/burn" 2
	runner=$pid
	until_true 20 says run '^ready' || fail "run does not start"
	target=$(pgrep -P "$runner" -x burn)
	started+=("$target")
	sleep 1
	kill -KILL "$target"
	wait "$runner"
	status=$?
	[ "$status" -eq 137 ] || fail "run says $status when its program is killed: $(cat run.log)"
	has_samples dead.folded || fail "the profile of a killed program is empty: $(cat run.log)"
	rm dead.folded
}

# begin_and_kill RATE OPTIONS...: a window on $target whose daemon dies in the middle.
begin_and_kill() {
	local daemon
	start daemon "$KITPROFD" --pid "$target" -r "$1" "${@:2}" --no-raw --no-folded --no-flat -q
	daemon=$pid
	until_true 20 has_our_timers "$target" || fail "no window: $(cat daemon.log)"
	sleep 0.5
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
	has_agent "$target" || fail "the daemon was gone before it was killed"
}

# daemon_dies RATE OPTIONS...
daemon_dies() {
	victim burn burn 2
	target=$pid
	proc_state "$target" before

	begin_and_kill "$@"
	must_work "$target" "after its daemon was killed"
	# The lease is a number of ticks: some seconds of CPU for each thread.
	until_true 40 has_no_timers_of_ours "$target" || fail "the clocks go on: $(cat "/proc/$target/timers")"
	must_work "$target" "after its clocks ran out"
	"$KITPROF" cleanup -q "$target" 2>err || fail "cleanup says $?: $(cat err)"
	same_state "$target" before "after cleanup"
	"$KITPROF" cleanup "$target" 2>err || fail "a second cleanup says $?: $(cat err)"
	grep -q 'nothing' err || fail "a second cleanup finds something: $(cat err)"

	# At once, with all clocks running.
	begin_and_kill "$@"
	"$KITPROF" cleanup -q "$target" 2>err || fail "cleanup at once says $?: $(cat err)"
	same_state "$target" before "after cleanup at once"

	# Or by attaching anew.
	begin_and_kill "$@"
	cycle "$target" 0.2 99 || fail "no new window: $(cat cycle.log)"
	same_state "$target" before "after another window"

	# Cleanup does not touch what a living daemon does.
	start daemon "$KITPROFD" --pid "$target" "-r$1" "${@:2}" --no-raw --no-folded --no-flat -q
	until_true 20 has_our_timers "$target" || fail "no window: $(cat daemon.log)"
	"$KITPROF" cleanup "$target" 2>err && fail "cleanup takes the agent from a living daemon"
	has_our_timers "$target" || fail "the clocks of a living daemon are gone"
	# Long enough for a sample: a window without one ends with 3.
	until_true 20 uses_more "$target" "$(cpu_ticks "$target")" 20 || fail "the target does not run"
	kill -INT "$pid"
	wait "$pid" || fail "kitprofd says $? after SIGINT: $(cat daemon.log)"
	same_state "$target" before "after SIGINT"

	must_work "$target" "at the end"
	ends_well "$target" burn
}

is_clean() {
	"$KITPROF" cleanup -q "$1" 2>/dev/null
}

# At any moment of attaching, sampling and detaching. What stops threads is a process of its own: it
# finishes what it does.
killed_any_time() {
	local i recorder
	victim burn burn 2
	target=$pid
	proc_state "$target" before
	for ((i = 0; i < 30; i++)); do
		start record "$KITPROF" record --pid "$target" -d 0.04 -r 999 --no-raw --no-folded --no-flat -q
		recorder=$pid
		sleep "0.$(printf %03d $((RANDOM % 110)))"
		kill -KILL "$recorder" 2>/dev/null
		wait "$recorder" 2>/dev/null
		is_alive "$target" || fail "the target died of kill $i"
		sleep 0.2
		must_live "$target" "after kill $i"
		until_true 5 is_clean "$target" || fail "cleanup $i: $("$KITPROF" cleanup "$target" 2>&1)"
		same_state "$target" before "after kill and cleanup $i"
	done
	ends_well "$target" burn
}

case $1 in
target)
	for rate in 99 999; do
		target_dies_recorded "$rate"
		target_dies_run "$rate"
	done
	;;
daemon)
	# Timers alone, and beside events: those vanish with the daemon.
	daemon_dies 99
	daemon_dies 300
	;;
moments)
	killed_any_time
	;;
esac
