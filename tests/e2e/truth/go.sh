#!/bin/bash
# go.sh CASE: programs whose runtime handles every signal, SIGPROF and SIGURG as well. The agent's
# handler stands in front of theirs and hands on what is not from its clocks.
. "$(dirname "$0")/truth.sh"

# Percent of the weight that has the function somewhere on its stack.
share_of() {
	awk -v name="$2" '
		{ all += $NF; if (index(";" $0 " ", ";" name " ") || index($0, ";" name ";")) part += $NF }
		END { printf "%.1f\n", all ? 100 * part / all : 0 }' "$1"
}

# A sample in the first instructions of Go's preemption has lost the function that it came from.
expect_stacks() {
	local worker heavy light

	has prof.folded ';runtime\.goexit;.*main\.worker;main\.heavy'
	worker=$(share_of prof.folded main.worker)
	heavy=$(share_of prof.folded main.heavy)
	light=$(share_of prof.folded main.light)
	at_least "percent in the goroutines" "$worker" 85
	awk -v h="$heavy" -v l="$light" 'BEGIN { exit !(h > 1.5 * l) }' ||
		fail "main.heavy has $heavy %, main.light $light %, expected 3 : 1"
	has err.log SIGPROF
}

case $1 in
run)
	for rate in 99 999; do
		run_says 0 "$KITPROF" run -r "$rate" -- "$VICTIMS/spin-go" 2
		equal stdout "$(tr '\n' ' ' <out)" "ready done "
		expect_stacks
		account prof.kitprof 70 115
	done
	;;
record)
	need_ptrace
	burner target "$VICTIMS/spin-go" 1000
	proc_state "$pid" before
	run_says 0 "$KITPROF" record --pid "$pid" -d 2 -r 999
	expect_stacks
	proc_state "$pid" after
	# The runtime starts threads when it likes to.
	for file in before after; do
		grep -e ' /' -e '^SigCgt' -e '^SigIgn' -e '^signal' "$file" | sort -u >"$file.part"
	done
	cmp -s before.part after.part || fail "not as it was: $(diff before.part after.part)"
	must_work "$pid" "after profiling"
	;;
cgo)
	# Its runtime has its signals' actions through the C library.
	need_ptrace
	run_says 0 "$KITPROF" run -r 999 -- "$VICTIMS/spin-cgo" 2
	expect_stacks
	account prof.kitprof 70 115
	burner target "$VICTIMS/spin-cgo" 1000
	run_says 0 "$KITPROF" record --pid "$pid" -d 2 -r 999
	expect_stacks
	must_work "$pid" "after profiling"
	;;
beside)
	# Go's own profiler works on while kitprof samples with the same signal.
	need_ptrace
	start target "$VICTIMS/spin-go" 6 go.prof
	target=$pid
	until_true 20 says target '^ready' || fail "no target"
	run_says 0 "$KITPROF" record --pid "$target" -d 3
	expect_stacks
	wait "$target" || fail "the target ended with $?"
	"$GO" tool pprof -raw "$VICTIMS/spin-go" go.prof >raw.txt 2>/dev/null || fail "no profile of its own"
	# 100 Hz of up to two CPUs for 6 s, half of it beside kitprof.
	samples=$(awk '/^Samples/ { on = 1; next } /^Locations/ { on = 0 } on && $1 ~ /^[0-9]+$/ { n += $1 } END { print n + 0 }' raw.txt)
	ticks=$(awk '/^Period: / { print $2 }' raw.txt)
	[ "$samples" -gt 60 ] || fail "Go's own profile has $samples samples (period $ticks)"
	;;
esac
