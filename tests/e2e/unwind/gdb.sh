#!/bin/bash
# gdb.sh PLACE PROGRAM: the callers in kitprof's stacks are those that gdb finds, address by address.
. "$(dirname "$0")/unwind.sh"
need_tool gdb
need_ptrace

victim places "$2" "$1" 0 spin
target=$pid
until_true 20 uses_more "$target" 0 5 || fail "places does not run"
"$KITPROF" record --pid "$target" -d 60 --cap 100 -r 999 -q 2>err.log || fail "record ends with $?: $(cat err.log)"
# Without line numbers gdb shows the address of each frame, and none that was inlined.
timeout 60 gdb -nx -batch -iex 'set debug-file-directory /nowhere' -p "$target" \
	-ex 'set backtrace past-main on' -ex 'set backtrace past-entry on' \
	-ex 'thread apply all backtrace' >gdb.txt 2>gdb.err || fail "gdb fails: $(tail -n 3 gdb.err)"
must_live "$target" "after gdb"

# The callers, as a profile has them: frame 0 moves. The frame of the kernel's that a signal has made
# has no address in gdb; what was interrupted is its address plus 1 in a profile, so that whoever
# takes one off finds the instruction.
wanted() {
	local line address after_signal=0
	awk '/^Thread / { thread++ } /^#[1-9]/ && thread == 1' gdb.txt | while read -r line; do
		case $line in
		*'<signal handler called>'*)
			echo signal
			after_signal=1
			continue
			;;
		esac
		address=$(grep -o '0x[0-9a-f]*' <<<"$line" | head -n 1)
		printf '%x\n' $((address + after_signal))
		after_signal=0
	done
}

wanted >wanted
"$RAWDUMP" prof.kitprof | sed -n 's/^sample.* walk_end=[129] .* pc=[0-9a-f]*,\(.*\)/\1/p' |
	sort | uniq -c | sort -rn | head -n 1 | awk '{ print $2 }' | tr , '\n' >got
[ "$(grep -c . got)" -ge 3 ] || fail "too few frames: $(cat got)"
paste wanted got | awk '
	$1 == "signal" && $2 != "" { next }
	$1 != $2 { print "frame " NR ": " $2 ", gdb has " $1; bad = 1 }
	END { exit bad }' || fail "$(paste wanted got; cat gdb.txt)"
