#!/bin/bash
# roots.sh throws|coroutine PROGRAM: stacks that are cut off while they are looked at, and those that
# begin elsewhere.
. "$(dirname "$0")/unwind.sh"

profile "$VICTIMS/$2" 2
case $1 in
throws)
	are_whole prof.kitprof 99
	chain prof.folded ';main;catch_it' 97
	chain prof.folded '_Unwind_RaiseException|_Unwind_Find_FDE|__gxx_personality' 10
	;;
coroutine)
	# No way leads from its stack to main's.
	are_whole prof.kitprof 98
	chain prof.folded ';coroutine;in_coroutine' 90
	! grep -q 'main.*;coroutine;' prof.folded || fail "a coroutine has no caller"
	;;
esac
