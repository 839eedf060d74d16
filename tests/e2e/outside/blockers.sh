#!/usr/bin/env bash
# blockers.sh CASE: threads that block the sampling signal are found and sampled in stops.
. "$(dirname "$0")/outside.sh"
need_ptrace

# shares RATE CLAMPED: a thread that blocks all signals beside one that does not. Both have what they
# used, but for what passes before the one is found.
shares() {
	local recorder open shut used_open used_shut n
	victim blocker blocker open shut
	target=$pid
	open=$(thread_of "$target" open)
	shut=$(thread_of "$target" shut)
	proc_state "$target" before
	start record "$KITPROF" record --pid "$target" -r "$1" -d 100 -t
	recorder=$pid
	until_true 20 says record 'thread shut .*blocks the sampling signal: it is sampled in short stops' ||
		fail "the blocker is not found: $(cat record.log)"
	used_open=$(thread_cpu_ms "$target" "$open")
	used_shut=$(thread_cpu_ms "$target" "$shut")
	until_true 90 have_used "$target" $((used_open + used_shut + 4000)) "$open" "$shut" || fail "too slow here"
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	used_open=$(($(thread_cpu_ms "$target" "$open") - used_open))
	used_shut=$(($(thread_cpu_ms "$target" "$shut") - used_shut))
	same_state "$target" before "after the window"
	adds_up prof.kitprof
	n=$(samples_of prof.kitprof 3 "$shut")
	[ "$n" -ge 50 ] || fail "$n samples in stops"
	[ "$(samples_of prof.kitprof 3)" -eq "$n" ] || fail "the other thread was sampled in stops too"
	[ "$(end_of prof.kitprof stops)" -ge "$n" ] || fail "more samples than stops"
	[ "$(end_of prof.kitprof stops_ns)" -gt 0 ] || fail "stops took no time"
	is_share "$(weight_of prof.folded "shut-$shut;.*burn_shut")" "$(weight_of prof.folded "shut-$shut;")" 100 10 \
		"burn_shut of the blocker"
	is_share "$(ms_of prof.kitprof "$shut" 3)" "$used_shut" 100 20 "what the blocker used"
	is_share "$(ms_of prof.kitprof "$open")" "$used_open" 100 20 "what the other used"
	[ "$(end_of prof.kitprof clamped)" -eq "$2" ] || fail "clamped: $(end_of prof.kitprof clamped), not $2"
	must_work "$target" "after the window"
	ends_well "$target" blocker
}

case $1 in
attach)
	shares 99 0
	;;
fast)
	shares 3999 1
	grep -q '1000 Hz at most' record.log || fail "the limit is not said: $(cat record.log)"
	;;
off)
	victim blocker blocker open shut
	target=$pid
	"$KITPROF" record --pid "$target" -d 4 -t --no-ptrace-fallback 2>err || fail "record says $?: $(cat err)"
	grep -q 'thread shut .*blocks the sampling signal: it is not sampled (--no-ptrace-fallback)' err ||
		fail "nobody says what is not sampled: $(cat err)"
	[ "$(samples_of prof.kitprof 3)" -eq 0 ] || fail "samples in stops"
	[ "$(end_of prof.kitprof stops)" -eq 0 ] || fail "stops"
	adds_up prof.kitprof
	ends_well "$target" blocker
	;;
early)
	# It ends its blocking in the middle: then it has its own clocks again.
	victim blocker blocker early
	target=$pid
	tid=$(thread_of "$target" early)
	start record "$KITPROF" record --pid "$target" -d 100 -t
	recorder=$pid
	sleep 4
	used=$(thread_cpu_ms "$target" "$tid")
	until_true 90 have_used "$target" $((used + 1500)) "$tid" || fail "too slow here"
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	n=$("$RAWDUMP" prof.kitprof | grep "^sample .*tid=$tid " | tail -n 10 | grep -c -v source=3)
	[ "$n" -eq 10 ] || fail "it is still sampled in stops"
	adds_up prof.kitprof
	ends_well "$target" blocker
	;;
blink)
	# It blocks nine tenths of the time, and is sampled in the rest.
	victim blocker blocker blink
	target=$pid
	"$KITPROF" record --pid "$target" -d 4 --clock timer 2>err || fail "record says $?: $(cat err)"
	[ "$(samples_of prof.kitprof 3)" -eq 0 ] || fail "it is taken for a blocker: $(cat err)"
	ends_well "$target" blocker
	;;
idle)
	# One that hardly runs is hardly stopped, and never in the call that it sleeps in.
	victim blocker blocker idle
	target=$pid
	"$KITPROF" record --pid "$target" -r 999 -d 4 2>err || fail "record says $?: $(cat err)"
	n=$(end_of prof.kitprof stops)
	[ "$n" -le 400 ] || fail "$n stops of a thread that runs for a twentieth of the time"
	is_share "$(weight_of prof.folded nanosleep)" "$(weight_of prof.folded .)" 0 10 "it was sampled asleep"
	ends_well "$target" blocker
	;;
all)
	# A program that blocks signals in all its threads and waits for them in one, from the start.
	start run "$KITPROF" run -r 99 -t -- "$VICTIMS/blocker" shut idle shut
	runner=$pid
	until_true 20 says run '^ready' || fail "run does not start: $(cat run.log)"
	target=$(pgrep -P "$runner" -x blocker)
	started+=("$target")
	shut=$(thread_of "$target" shut)
	until_true 20 says run 'thread shut .*blocks the sampling signal' || fail "not found: $(cat run.log)"
	used=$(thread_cpu_ms "$target" "$shut")
	until_true 90 have_used "$target" $((used + 1500)) "$shut" || fail "too slow here"
	kill -TERM "$target"
	wait "$runner" || fail "the program says $? under run: $(cat run.log)"
	grep -q 'got signal' run.log && fail "a signal of ours came to who waits for all: $(cat run.log)"
	[ "$(samples_of prof.kitprof 3 "$shut")" -ge 20 ] || fail "not sampled: $(cat prof.folded)"
	adds_up prof.kitprof
	;;
sigwait)
	# Who waits for all signals gets none of ours, whatever it uses.
	victim blocker blocker open
	target=$pid
	start record "$KITPROF" record --pid "$target" -r 999 -d 60
	recorder=$pid
	until_true 20 has_agent "$target" || fail "no window: $(cat record.log)"
	sleep 0.3
	for ((i = 0; i < 400; i++)); do
		kill -USR1 "$target"
		sleep 0.005
	done
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	kill -TERM "$target"
	wait "$target"
	says blocker 'got signal 10' || fail "the test sends nothing"
	[ -z "$(grep '^got signal' blocker.log | grep -v 'signal 10$')" ] || fail "$(sort blocker.log | uniq -c)"
	;;
exec)
	for signal in URG PROF; do
		"$KITPROF" run --signal "$signal" -q -- "$VICTIMS/blocker" exec 5 >out 2>err
		status=$?
		[ "$status" -eq 0 ] || fail "$signal: $status: $(cat out err)"
		grep -q 'has got through' out || fail "$signal: $(cat out err)"
	done
	;;
killed)
	# The onlooker may die at any instant, again and again, and the daemon with it.
	victim blocker blocker shut shut open
	target=$pid
	start record "$KITPROF" record --pid "$target" -r 999 -d 60
	recorder=$pid
	until_true 20 says record 'blocks the sampling signal' || fail "not found: $(cat record.log)"
	for ((i = 0; i < 30; i++)); do
		sleep 0.0$((RANDOM % 9))
		kill_onlooker "$recorder"
		must_work "$target" "after its onlooker was killed"
	done
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	adds_up prof.kitprof
	[ "$(samples_of prof.kitprof 3)" -ge 20 ] || fail "no other onlooker came"
	for ((i = 0; i < 10; i++)); do
		start record "$KITPROF" record --pid "$target" -r 999 -d 60 --no-raw -q
		recorder=$pid
		sleep 0.$((3 + RANDOM % 5))
		kill -KILL "$recorder"
		wait "$recorder" 2>/dev/null
		must_work "$target" "after kitprof was killed"
	done
	"$KITPROF" cleanup -q "$target"
	ends_well "$target" blocker
	;;
*)
	fail "no case $1"
	;;
esac
