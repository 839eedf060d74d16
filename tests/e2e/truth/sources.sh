#!/bin/bash
# sources.sh CASE: what `kitprof sources` says is what a session then does, and a process is only
# looked at.
. "$(dirname "$0")/truth.sh"

# clocks RATE OPTION...: those that sources expects at that rate, as the closing lines write them.
clocks() {
	local value

	run_says 0 "$KITPROF" sources -r "$@"
	value=$(sed -n "s/^$1 Hz  *//p" out)
	case $value in
	task-clock*) echo "cpu-timer + task-clock" ;;
	cycles*) echo "cpu-timer + cycles" ;;
	cpu-timer*) echo "cpu-timer" ;;
	*) fail "sources says \"$value\" of $1 Hz" ;;
	esac
}

case $1 in
session)
	for rate in 99 999; do
		for clock in auto timer cycles; do
			expected=$(clocks $rate --clock $clock)
			run_says 0 "$KITPROF" run -r $rate --clock $clock -- "$VICTIMS/shares" 2 1 0
			grep -qF "($expected, SIG" err.log || fail "$clock at $rate Hz: no $expected: $(cat err.log)"
		done
	done
	run_says 0 "$KITPROF" sources
	has out '^attach, 99 Hz +cpu-timer'
	has out '^run, 999 Hz +(task-clock|cpu-timer)'
	equal "name of the last line" "$(tail -n 1 out | cut -c 1-30)" "conclusion           sampling "
	equal stderr "$(cat err.log)" ""
	;;
target)
	need_ptrace
	burner victim "$VICTIMS/shares" 1000 1 0
	proc_state "$pid" before
	run_says 0 "$KITPROF" sources --pid "$pid"
	has out "^pid $pid +shares: would be sampled with SIGURG$"
	run_says 0 "$KITPROF" sources --pid "$pid" --signal PROF
	has out "^pid $pid +shares: would be sampled with SIGPROF$"
	same_state "$pid" before "after it was looked at"
	must_work "$pid" "after it was looked at"
	;;
refused)
	run_says 1 "$KITPROF" sources --pid 2147483647
	has out '^pid 2147483647 +would be refused: .*no such process'
	has out '^conclusion +pid 2147483647 cannot be profiled'
	;;
esac
