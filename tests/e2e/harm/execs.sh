#!/usr/bin/env bash
# execs.sh attach|run
#
# A signal that is on its way when a program executes another one must not kill that one. Children
# execute all the time here, of a parent that is profiled at a high rate.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# profiled KIND OPTIONS...
profiled() {
	local i status
	victim "execs-$1" execs "$1" 0
	for i in 1 2; do
		"$KITPROF" record --pid "$pid" -d 2 -r 4000 "${@:2}" --no-raw --no-folded --no-flat -q 2>err ||
			fail "$*: record says $?: $(cat err)"
		must_live "$pid" "after window $i of $*"
		has_agent "$pid" && fail "the agent is still in it"
	done
	# Attaching and detaching often meets a parent that waits for its vfork child.
	cycles 10 "$pid" 0.02 999 "${@:2}"
	must_live "$pid" "after the cycles of $*"
	ends_well "$pid" "execs-$1"
}

# A child inherits handler and mapping, but no clock.
launched() {
	"$KITPROF" run -r 4000 --no-raw --no-folded --no-flat -q -- "$VICTIMS/execs" "$1" 400 >run.out 2>err ||
		fail "$1: run says $?: $(cat err run.out)"
	grep -q '^end: 400 children, 0 bad' run.out || fail "$1: $(cat run.out)"
}

# The program executes another one itself, over and over.
chain() {
	cat >chain.sh <<-'END'
		i=$1
		j=0
		while [ $j -lt 300 ]; do j=$((j + 1)); done
		[ "$i" -gt 0 ] || { echo "chain done"; exit 7; }
		exec sh "$0" $((i - 1))
	END
	"$KITPROF" run -r 4000 --no-raw --no-folded --no-flat -q -- sh chain.sh 200 >run.out 2>err
	status=$?
	[ "$status" -eq 7 ] || fail "a chain of execs ends with $status: $(cat err run.out)"
	grep -q 'chain done' run.out || fail "the chain did not come to its end"
}

case $1 in
attach)
	profiled fork
	profiled fork --clock timer
	# A late SIGPROF kills, where a late SIGURG does nothing.
	profiled fork --signal PROF
	profiled vfork --signal PROF
	;;
run)
	launched fork
	launched vfork
	chain
	;;
esac
