#!/usr/bin/env bash
# wall.sh CASE: threads that wait are in the profile, and do not notice.
. "$(dirname "$0")/outside.sh"
need_ptrace

wall() {
	"$KITPROF" record --pid "$1" --clock wall -d "$2" -t "${@:3}" 2>err || fail "record says $?: $(cat err)"
	adds_up prof.kitprof
}

# split MODE POINTS: a thread that runs for 3 ms of CPU time and waits for 7 ms, in turns. On a busy
# machine it waits for a CPU besides, which is in neither.
split() {
	local tid ran waited
	victim split split "$1"
	target=$pid
	tid=$(thread_of "$target" splitter)
	wall "$target" 8
	ran=$(ms_of prof.kitprof "$tid" 1)
	waited=$(ms_of prof.kitprof "$tid" 4)
	[ "$waited" -ge 300 ] || fail "waited $waited ms, ran $ran ms of 8 s"
	is_share "$waited" $((ran + waited)) 70 "$2" "what it waited"
	is_share "$(weight_of prof.folded "splitter-$tid;.*in_wait")" "$(weight_of prof.folded "splitter-$tid;")" \
		70 "$2" "in_wait"
	is_share "$(weight_of prof.folded "splitter-$tid;.*in_run")" "$(weight_of prof.folded "splitter-$tid;")" \
		30 "$2" "in_run"
	"$KITPROF" report prof.kitprof --stats | grep -q '^waited' || fail "the figures do not speak of waiting"
	grep -q '^# self.*wall in s' prof.flat || fail "the flat report is not of wall time: $(head prof.flat)"
	[ "$(end_of prof.kitprof stops)" -le 20 ] || fail "$(end_of prof.kitprof stops) stops"
	ends_well "$target" split
}

is_serving() {
	[ "$(redis-cli -s redis.sock ping 2>/dev/null)" = PONG ]
}

case $1 in
sleep | epoll | futex)
	split "$1" 8
	;;
read)
	# The other end of the pipe has to get a CPU as well.
	split "$1" 20
	;;
sleepers)
	# Thirty-odd blocking calls: none returns EINTR, or before its time.
	start all "$HARM/sleepers" all
	target=$pid
	until_true 20 says all '^ready' || fail "sleepers do not get ready"
	wall "$target" 4
	wall "$target" 3 --no-ptrace-fallback
	[ "$(end_of prof.kitprof stops)" -eq 0 ] || fail "stops, although they are turned off"
	wall "$target" 2 -r 999
	must_work "$target" "after the windows"
	ends_well "$target" all
	;;
pingpong)
	victim pingpong pingpong
	target=$pid
	wall "$target" 5
	n=$(end_of prof.kitprof stops)
	[ "$n" -le 100 ] || fail "$n stops of a loop that waits in two places"
	must_work "$target" "after the window"
	ends_well "$target" pingpong
	says pingpong 'errors 0$' || fail "epoll_wait failed: $(cat pingpong.log)"
	;;
redis)
	need_tool redis-server
	need_tool redis-benchmark
	start redis redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work"
	target=$pid
	until_true 20 is_serving || fail "redis does not start: $(cat redis.log)"
	redis-benchmark -s redis.sock -n 2000 -c 20 -t get,set -q >/dev/null 2>&1
	sleep 1
	proc_state "$target" before
	wall "$target" 3
	sleep 0.5
	same_state "$target" before "after a window at rest"
	start benchmark redis-benchmark -s redis.sock -n 100000000 -c 20 -t get -q
	bench=$pid
	wall "$target" 3
	is_alive "$bench" || fail "redis-benchmark ended: $(cat benchmark.log)"
	end_quietly "$bench"
	! grep -i -e error -e reset -e refused benchmark.log || fail "a client met an error"
	is_serving || fail "redis does not answer"
	;;
stopped)
	victim split split epoll
	target=$pid
	kill -STOP "$target"
	until_true 10 in_state "$target" T
	wall "$target" 2
	in_state "$target" T || fail "a stopped process is $(state_of "$target")"
	[ "$(end_of prof.kitprof stops)" -eq 0 ] || fail "a stopped process was stopped"
	start record "$KITPROF" record --pid "$target" --clock wall -d 4 -q
	recorder=$pid
	sleep 1
	kill -CONT "$target"
	for ((i = 0; i < 20; i++)); do
		kill -STOP "$target"
		until_true 10 in_state "$target" T || fail "SIGSTOP had no effect"
		kill -CONT "$target"
		sleep 0.05
	done
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	must_work "$target" "after SIGSTOP and SIGCONT"
	# epoll_wait ends with EINTR at a SIGCONT, with us and without.
	end_quietly "$target"
	;;
gdb)
	need_tool gdb
	victim split split read
	target=$pid
	start record "$KITPROF" record --pid "$target" --clock wall -d 30 -q
	recorder=$pid
	until_true 10 has_agent "$target" || fail "no window: $(cat record.log)"
	for ((i = 0; i < 3; i++)); do
		timeout 30 gdb -nx -batch -p "$target" -ex 'thread apply all backtrace 2' -ex detach >gdb.log 2>&1 ||
			fail "gdb cannot attach: $(cat gdb.log)"
		grep -q -e read -e nanosleep gdb.log || fail "gdb shows no stack: $(cat gdb.log)"
	done
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat record.log)"
	must_work "$target" "after gdb"
	ends_well "$target" split
	;;
killed)
	victim pingpong pingpong
	target=$pid
	for ((i = 0; i < 8; i++)); do
		start record "$KITPROF" record --pid "$target" --clock wall -d 60 --no-raw -q
		recorder=$pid
		sleep 0.$((2 + RANDOM % 6))
		kill_onlooker "$recorder"
		sleep 0.2
		kill -KILL "$recorder"
		wait "$recorder" 2>/dev/null
		must_work "$target" "after kitprof was killed"
	done
	"$KITPROF" cleanup -q "$target"
	end_quietly "$target"
	;;
*)
	fail "no case $1"
	;;
esac
exit 0
