#!/usr/bin/env bash
# traces.sh threads|redis: after many attachments the target is as it was before the first.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# both_clocks N PID: N cycles, half with timers alone, half with events as well where allowed.
both_clocks() {
	cycles $(($1 / 2)) "$2" 0.02 99 --clock timer
	cycles $(($1 / 2)) "$2" 0.02 999
}

threads() {
	victim burn burn 8 yield
	target=$pid
	proc_state "$target" before
	both_clocks 180 "$target"
	same_state "$target" before "after 180 cycles"
	cycles 20 "$target" 0.02 999 --signal PROF
	same_state "$target" before "after 20 cycles with SIGPROF"
	must_work "$target" "after all cycles"
	ends_well "$target" burn

	victim burn burn 8
	proc_state "$pid" before
	both_clocks 20 "$pid"
	same_state "$pid" before "after 20 cycles without yielding"
	ends_well "$pid" burn
}

is_serving() {
	[ "$(redis-cli -s redis.sock ping 2>/dev/null)" = PONG ]
}

redis() {
	need_tool redis-server
	need_tool redis-benchmark
	start redis redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work"
	target=$pid
	until_true 20 is_serving || fail "redis does not start: $(cat redis.log)"
	# Its background threads and its arenas come with the first clients.
	redis-benchmark -s redis.sock -n 2000 -c 20 -t get,set -q >/dev/null 2>&1
	sleep 1
	start benchmark redis-benchmark -s redis.sock -n 100000000 -c 20 -t get -q
	bench=$pid
	both_clocks 200 "$target"
	is_alive "$bench" || fail "redis-benchmark ended: $(cat benchmark.log)"
	end_quietly "$bench"
	must_live "$target" "after 200 cycles"
	# Compared while it rests: under load it opens and closes descriptors, and its memory grows.
	sleep 1
	proc_state "$target" before
	both_clocks 20 "$target"
	sleep 0.5
	same_state "$target" before "after 20 cycles at rest"
	start benchmark redis-benchmark -s redis.sock -n 200000 -c 20 -t get,set -q
	bench=$pid
	while is_alive "$bench"; do
		cycles 1 "$target" 0.03 999
	done
	wait "$bench" || fail "redis-benchmark ends with $?: $(cat benchmark.log)"
	! grep -i -e error -e reset -e refused benchmark.log || fail "a client met an error"
	[ "$(redis-cli -s redis.sock ping)" = PONG ] || fail "redis does not answer"
	has_agent "$target" && fail "the agent is still in redis"
	return 0
}

case $1 in
threads) threads ;;
redis) redis ;;
esac
