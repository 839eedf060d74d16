#!/bin/bash
# follow.sh CASE: forks and execs of the target.
. "$(dirname "$0")/../truth/truth.sh"
need_ptrace

# processes FILE: how many processes the samples of a raw profile are from.
processes() {
	"$RAWDUMP" "$1" | sed -n 's/^sample .*\bpid=\([0-9]*\).*/\1/p' | sort -u | wc -l
}

explained() {
	"$KITPROF" report --stats --json prof.kitprof | python3 -c '
import json, sys
print(int(json.load(sys.stdin)["explained_percent"]))'
}

# agents_left PID: its children that still have the agent.
agents_left() {
	local child
	for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
		has_agent "$child" && echo "$child"
	done
}

case $1 in
forks)
	need_perf
	run_says 3 "$KITPROF" run -- "$VICTIMS/forks" 6 400
	account prof.kitprof
	at_least "processes sampled" "$(processes prof.kitprof)" 6
	at_least "percent explained" "$(explained)" 80
	has prof.folded '^forks;.*main;(child;)?burn_in_child [0-9]+$'
	run_says 3 "$KITPROF" run -- "$VICTIMS/forks" 4 400 threads
	at_least "percent explained with threads" "$(explained)" 75
	has prof.folded ';second;burn_in_child [0-9]+$'
	;;
timers)
	run_says 3 "$KITPROF" run --clock timer -- "$VICTIMS/forks" 6 300
	account prof.kitprof
	at_least "processes sampled" "$(processes prof.kitprof)" 6
	at_least "percent explained" "$(explained)" 75
	;;
pipe)
	cp "$SHARES/shares" first
	cp "$SHARES/shares" second
	run_says 0 "$KITPROF" run -- sh -c './first 3 1 0 | ./second 3 1 0'
	account prof.kitprof
	has prof.folded '^first;.*fifty [0-9]+$'
	has prof.folded '^second;.*fifty [0-9]+$'
	"$KITPROF" report --per-process --no-flat -o split.folded prof.kitprof 2>err.log
	has split.folded '^first-[0-9]+;.*fifty [0-9]+$'
	;;
make)
	need_tool make
	need_tool gcc
	for i in 1 2 3 4; do
		{
			echo "int f$i(int x) {"
			for ((k = 0; k < 4000; k++)); do echo "x = x * $k + (x >> $((k % 30)));"; done
			echo "return x; }"
		} >"f$i.c"
	done
	printf 'CFLAGS = -O1\nall: f1.o f2.o f3.o f4.o\n' >Makefile
	run_says 0 "$KITPROF" run -- make -j2
	[ -s f4.o ] || fail "make made nothing"
	account prof.kitprof
	has prof.folded '^cc1;'
	at_least "percent of a compilation explained" "$(explained)" 70
	;;
storm)
	run_says 3 "$KITPROF" run -r 4000 -- "$VICTIMS/forks" 200 1
	account prof.kitprof
	run_says 3 "$KITPROF" run -r 99 -- "$VICTIMS/forks" 200 1
	account prof.kitprof
	;;
daemon)
	# Its parent may end before anybody hears of the grandchild, so only: no harm.
	run_says 3 "$KITPROF" run -- "$VICTIMS/forks" 10 150 daemon
	account prof.kitprof
	;;
attach)
	victim forks forks 0 80 forever
	target=$pid
	proc_state "$target" before
	for rate in 99 999; do
		run_says 0 "$KITPROF" record --pid "$target" -d 1.5 -r "$rate"
		account prof.kitprof
		at_least "processes sampled at $rate Hz" "$(processes prof.kitprof)" 3
		same_state "$target" before "after a window at $rate Hz"
		left=$(agents_left "$target")
		[ -z "$left" ] || fail "the agent is left in $left"
	done
	ends_well "$target" forks
	;;
left-alone)
	run_says 3 "$KITPROF" run --no-follow -- "$VICTIMS/forks" 4 100
	account prof.kitprof
	[ "$(processes prof.kitprof)" -le 1 ] || fail "children are sampled with --no-follow"
	;;
killed)
	start target "$VICTIMS/forks" 0 200 forever
	target=$pid
	until_true 20 says target '^ready' || fail "the victim does not get ready"
	start recorder "$KITPROF" record --pid "$target" -d 20
	recorder=$pid
	until_true 10 test -s prof.kitprof || fail "sampling does not begin"
	sleep 1
	end_quietly "$target"
	wait "$recorder" || fail "record says $?: $(cat recorder.log)"
	account prof.kitprof
	has prof.folded 'burn_in_child [0-9]+$'
	;;
set-uid)
	[ "$(id -u)" -eq 0 ] || skip "only root can give a program to somebody else"
	cp "$SHARES/shares" plain
	cp "$SHARES/shares" trusted
	chown 65534 trusted && chmod 4755 trusted || skip "no set-uid programs here"
	! findmnt -no OPTIONS -T . 2>/dev/null | grep -q nosuid || skip "mounted nosuid"
	# It is said once of each process, and nothing of it is sampled.
	for i in 1 2 3; do
		run_says 7 "$KITPROF" run -- sh -c './trusted 3 1 0; ./plain 3 1 0; exec ./trusted 1 1 7'
		account prof.kitprof
		grep 'rights of its own' err.log >said
		equal "lines about programs with rights of their own" "$(wc -l <said)" 2
		equal "processes that they name" "$(grep -o 'pid [0-9]*' said | sort -u | wc -l)" 2
		equal refused "$(raw_end prof.kitprof refused)" 2
		equal privileged "$(raw_end prof.kitprof privileged)" 2
		has prof.folded '^plain;.*fifty [0-9]+$'
		has_not prof.folded '^trusted;'
	done
	;;
esac
