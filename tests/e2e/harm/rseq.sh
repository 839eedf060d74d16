#!/usr/bin/env bash
# A stop must not hide from the kernel that a thread is inside a restartable sequence: such a thread
# goes on at the abort handler. Compared with a process that kitprof leaves alone.
. "$(dirname "$0")/../lib.sh"
need_ptrace
"$VICTIMS/rseq" >probe.log &
sleep 0.3
kill -TERM $! 2>/dev/null
wait $!
[ $? -ne 77 ] || skip "no restartable sequences: $(cat probe.log)"

# last WORD LOG: the last number behind a word in a victim's lines.
last() {
	sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$2.log" | tail -n 1
}

# Interrupts and a host that takes the CPU away make gaps too: those that a second victim sees in the
# same seconds, which nobody attaches to.
victim rseq rseq
rseq=$pid
victim untouched rseq
untouched=$pid
for rate in 99 999; do
	sleep 0.3
	before=$(last gaps rseq)
	before_untouched=$(last gaps untouched)
	cycles 60 "$rseq" 0.01 "$rate"
	sleep 0.3
	with=$(($(last gaps rseq) - before))
	without=$(($(last gaps untouched) - before_untouched))
	# Each cycle stops the thread at least three times: two gaps a cycle would be the fault.
	echo "$rate Hz: $with gaps in 60 cycles, $without beside it without"
	[ "$with" -le $((20 + 2 * without)) ] || fail "sequences went on after a stop without an abort"
done
[ "$(last aborts rseq)" -gt 100 ] || fail "hardly any sequence was aborted: is the victim inside one at all?"
ends_well "$rseq" rseq
ends_well "$untouched" untouched
