#!/usr/bin/env bash
# A stop must not hide from the kernel that a thread is inside a restartable sequence: such a thread
# goes on at the abort handler. Compared with as long a time without kitprof.
. "$(dirname "$0")/../lib.sh"
need_ptrace
"$VICTIMS/rseq" >probe.log &
sleep 0.3
kill -TERM $! 2>/dev/null
wait $!
[ $? -ne 77 ] || skip "no restartable sequences: $(cat probe.log)"

# The last number behind a word in the victim's lines.
last() {
	sed -n "s/.*$1 \([0-9]*\).*/\1/p" rseq.log | tail -n 1
}

victim rseq rseq
for rate in 99 999; do
	sleep 0.3
	before=$(last gaps)
	cycles 60 "$pid" 0.01 "$rate"
	sleep 0.3
	with=$(($(last gaps) - before))
	control=0
	# Each cycle stops the thread at least three times: two gaps a cycle would be the fault.
	if [ "$with" -gt 20 ]; then
		before=$(last gaps)
		sleep 8
		control=$(($(last gaps) - before))
	fi
	echo "$rate Hz: $with gaps in 60 cycles, $control in 8 s without"
	[ "$with" -le $((20 + 2 * control)) ] || fail "sequences went on after a stop without an abort"
done
[ "$(last aborts)" -gt 100 ] || fail "hardly any sequence was aborted: is the victim inside one at all?"
ends_well "$pid" rseq
