#!/bin/bash
# symbols.sh crash|budget|progress|again: files that crash or stop who reads them cost their names and
# no more, and a report made again has them all; what is kept is not read again.
. "$(dirname "$0")/truth.sh"

need_ptrace
run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 10 1 0
has prof.folded ';main'
cp prof.folded whole.folded
bad=$VICTIMS/bad_dwarf.so

# The same names as ever, from a report without harm.
report_again() {
	run_says 0 "$KITPROF" report -o again.folded prof.kitprof
	cmp whole.folded again.folded || fail "the report made again is another"
}

names=$XDG_CACHE_HOME/kitprof/names
[ -n "$(ls "$names")" ] || fail "no names are kept"

case $1 in
again)
	run_says 0 env LD_PRELOAD="$bad" BAD_DWARF=crash "$KITPROF" report -o again.folded prof.kitprof
	cmp whole.folded again.folded || fail "names that were kept are others"
	rm -r "$names"
	report_again
	run_says 0 env XDG_CACHE_HOME=/proc "$KITPROF" report -v -o again.folded prof.kitprof
	grep -q "names are not kept for the next time" err.log || fail "no word of the missing cache"
	cmp whole.folded again.folded || fail "without a cache names are others"
	exit 0
	;;
esac
rm -r "$names"

case $1 in
crash)
	run_says 0 env LD_PRELOAD="$bad" BAD_DWARF=crash "$KITPROF" report -v -o bad.folded prof.kitprof
	grep -q "shares: [0-9]* of [0-9]* addresses have no names: .*signal 11" err.log || fail "no word of the worker"
	grep -q "could not be named, since reading the file failed" err.log || fail "no word in the closing lines"
	has bad.folded '\[shares[]+]'
	report_again
	;;
budget)
	run_says 0 env LD_PRELOAD="$bad" BAD_DWARF=hang "$KITPROF" report --symbol-budget 500ms -o bad.folded prof.kitprof
	grep -q "had no time to be named (--symbol-budget)" err.log || fail "no word of the time"
	has bad.folded '\[shares[]+]'
	grep -q "had no time" bad.flat || fail "no word in the flat report"
	report_again
	# One that is long enough changes nothing.
	run_says 0 "$KITPROF" report --symbol-budget 10m -o long.folded prof.kitprof
	cmp whole.folded long.folded || fail "a long budget makes another report"
	;;
progress)
	# A terminal for stderr, nothing else.
	cat >terminal.py <<-'END'
	import os, pty, subprocess, sys
	ours, theirs = pty.openpty()
	child = subprocess.Popen(sys.argv[1:], stderr=theirs)
	os.close(theirs)
	said = b""
	try:
	    while chunk := os.read(ours, 4096):
	        said += chunk
	except OSError:
	    pass
	sys.stdout.buffer.write(said)
	sys.exit(child.wait())
	END
	python3 terminal.py env LD_PRELOAD="$bad" BAD_DWARF=hang "$KITPROF" report --symbol-budget 3s -o bad.folded prof.kitprof >terminal ||
		fail "status $?"
	grep -q "looking up names: [0-9]* of [0-9]* files, [0-9]* of [0-9]* addresses" terminal || fail "no progress: $(cat -v terminal)"
	run_says 0 env LD_PRELOAD="$bad" BAD_DWARF=hang "$KITPROF" report --symbol-budget 3s -o bad.folded prof.kitprof
	grep -q "looking up" err.log && fail "progress where there is no terminal"
	;;
esac
exit 0
