#!/usr/bin/env bash
# A stop and a signal disturb system calls that block. Here each of some thirty calls is stopped
# many times, and sampled over: none may return EINTR, or before its time.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# Each call alone in its process, so that it is the one that attaching stops. All sleep: status 3.
names=$("$VICTIMS/sleepers" list)
declare -A pids
for name in $names; do
	victim "one-$name" sleepers one "$name"
	pids[$name]=$pid
done
for name in $names; do
	cycles 8 "${pids[$name]}" 0.01 99
	cycles 2 "${pids[$name]}" 0.01 999
	must_live "${pids[$name]}" "in $name"
done
sleep 0.3
for name in $names; do
	ends_well "${pids[$name]}" "one-$name"
	says "one-$name" '^made' || fail "$name was never made"
done

# All calls at once beside a thread that runs: attaching stops that one, the others are armed.
victim all sleepers all
busy=$pid
cycles 20 "$busy" 0.05 99
cycles 10 "$busy" 0.05 999
cycle "$busy" 1 99 || fail "a window of 1 s at 99 Hz: $(cat cycle.log)"
cycle "$busy" 1 3999 || fail "a window of 1 s at 3999 Hz: $(cat cycle.log)"
must_work "$busy" "after the windows"
ends_well "$busy" all
[ "$(grep -c '^made' all.log)" -eq "$(wc -w <<<"$names")" ] || fail "not every call was made: $(cat all.log)"
