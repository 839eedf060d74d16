#!/usr/bin/env bash
# Forked children have handler and mapping from their parent: those are taken out of each of them.
. "$(dirname "$0")/../lib.sh"
need_ptrace

URG=$(kill -l URG)

family() {
	echo "$1"
	pgrep -P "$1"
}

# must_be_clean PARENT WHEN
must_be_clean() {
	local member mask
	for member in $(family "$1"); do
		has_agent "$member" && fail "the agent is in $member (of $1) $2"
		has_our_timers "$member" && fail "clocks are in $member (of $1) $2"
		mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$member/status")
		[ $((0x$mask >> (URG - 1) & 1)) -eq 0 ] || fail "$member (of $1) handles SIGURG $2"
		must_live "$member" "$2"
	done
}

# Children come before, in and after windows; at the end all is as if there had been none.
for rate in 99 999; do
	victim forks forks 8
	"$KITPROF" record --pid "$pid" -d 1.2 -r "$rate" --no-raw --no-flat -q -o forks.folded 2>err ||
		fail "record says $?: $(cat err)"
	until_true 10 says forks '^all' || fail "no children"
	must_be_clean "$pid" "after the window in which it was born at $rate Hz"
	cycles 5 "$pid" 0.05 "$rate"
	must_be_clean "$pid" "after cycles at $rate Hz"
	must_work "$pid" "after cycles at $rate Hz"
	ends_well "$pid" forks
done

# The daemon dies: each process is cleaned by its pid, and may be profiled before that.
victim forks forks 4
target=$pid
start daemon "$KITPROFD" --pid "$target" -r 300 --no-raw --no-folded --no-flat -q
until_true 10 says forks '^all' || fail "no children"
sleep 0.3
kill -KILL "$pid"
wait "$pid" 2>/dev/null
cycle "$(pgrep -P "$target" | tail -n 1)" 0.3 999 || fail "a child cannot be profiled: $(cat cycle.log)"
for member in $(family "$target"); do
	"$KITPROF" cleanup -q "$member" 2>err || fail "cleanup of $member says $?: $(cat err)"
done
must_be_clean "$target" "after cleanup of all"
must_work "$target" "after cleanup of all"
ends_well "$target" forks
