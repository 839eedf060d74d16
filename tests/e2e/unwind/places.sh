#!/bin/bash
# places.sh PLACE PROGRAM: stacks are whole and show the way to where CPU time is used, whatever is
# between: libc, a signal, threads, the vdso; and however the program is linked.
. "$(dirname "$0")/unwind.sh"

profile "$VICTIMS/$2" "$1" 2
case $1 in
deep)
	# More frames than a record has: the innermost ones are there.
	chain prof.folded '\[truncated\];(deepen;)+' 95
	exit 0
	;;
thread) are_whole prof.kitprof 99 && chain prof.folded 'work;deepen;deepen;deepen;deepen;deepen;deepen;bottom' 98 ;;
sort) are_whole prof.kitprof 99 && chain prof.folded ';main;outer;middle;sort_all;.*;compare' 97 ;;
signal) are_whole prof.kitprof 99 && chain prof.folded ';main;outer;middle;interrupted;.*;on_other_stack;handle;use_time' 90 ;;
clock) are_whole prof.kitprof 99 && chain prof.folded ';main;outer;middle;tell_time' 97 ;;
jump) are_whole prof.kitprof 99 && chain prof.folded ';main;outer;middle;jump_about;' 97 ;;
*) fail "no such place: $1" ;;
esac
