#!/bin/bash
# report.sh same|cut|wrong|binary: a raw profile says later what it said at once, a part of one says
# its part, and what is none is an error.
. "$(dirname "$0")/truth.sh"

# report STATUS FILE OPTIONS...: to stdout only
report() {
	local status=$1 file=$2

	shift 2
	run_says "$status" "$KITPROF" report "$file" --no-folded --no-flat "$@"
}

case $1 in
same)
	run_says 0 "$KITPROF" run -f pprof -- "$VICTIMS/shares" 3 3 0
	mkdir once
	cp prof.* once
	sleep 1.1 # no time of day may get into a report
	for time in 1 2; do
		report 0 prof.kitprof -f flat:- -q
		cmp once/prof.flat out || fail "flat is not what the session wrote, time $time"
		report 0 prof.kitprof -f folded:- -q
		cmp once/prof.folded out || fail "folded is not what the session wrote, time $time"
		report 0 prof.kitprof -f pprof:- -q
		cmp once/prof.pb.gz out || fail "pprof is not what the session wrote, time $time"
	done
	# Without -o the results are named after the file, wherever options stand.
	cp prof.kitprof other.kitprof
	run_says 0 "$KITPROF" report -f pprof other.kitprof
	cmp once/prof.folded other.folded && cmp once/prof.flat other.flat && cmp once/prof.pb.gz other.pb.gz ||
		fail "report's files are not what the session wrote"
	has err.log '^kitprof: [0-9]+ samples of shares \(4 threads\)'
	has err.log '^kitprof: wrote other.folded, other.flat, other.pb.gz '
	cmp prof.kitprof once/prof.kitprof || fail "report has changed the raw profile"
	;;
cut)
	run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 5 1 0
	size=$(stat -c %s prof.kitprof)
	head -c $((size * 2 / 3 / 8 * 8 + 4)) prof.kitprof >cut.kitprof
	report 0 cut.kitprof -f folded:- -v
	has out ';fifty [0-9]+$'
	has err.log 'the raw profile has no end: the session was interrupted'
	# The offset is that of the record which is not whole.
	whole=$("$RAWDUMP" cut.kitprof 2>/dev/null | grep -c ^sample)
	offset=$(sed -n 's/.*offset \([0-9]*\).*/\1/p' err.log | head -n 1)
	[ -n "$offset" ] || fail "-v does not name the offset where the file was cut"
	head -c "$offset" prof.kitprof >before.kitprof
	"$RAWDUMP" before.kitprof >before.txt || fail "$offset is not a record's border"
	equal "samples before the offset" "$(grep -c ^sample before.txt)" "$whole"
	at_least "samples before the offset" "$whole" 100
	has err.log "^kitprof: $whole samples of shares"
	# Any part, and any damage, is rendered or refused; nothing is brought down by it.
	for ((n = 0; n < size; n += size / 40 + 3)); do
		head -c "$n" prof.kitprof >part.kitprof
		"$KITPROF" report part.kitprof -q --no-folded --no-flat -f flat:- >out 2>err.log
		[ $? -le 1 ] || fail "$n bytes of the file bring report down"
		cp prof.kitprof bad.kitprof
		printf '\377\000\177\377' | dd of=bad.kitprof bs=1 seek="$n" conv=notrunc 2>/dev/null
		"$KITPROF" report bad.kitprof -q --no-folded --no-flat -f flat:- >out 2>err.log
		[ $? -le 1 ] || fail "damage at $n brings report down"
	done
	;;
wrong)
	echo "this is a text of some length, and no profile" >text
	report 1 text -f flat:-
	has err.log '^kitprof: text.*not a raw profile'
	: >empty
	report 1 empty -f flat:-
	has err.log '^kitprof: empty.*not a raw profile'
	mkdir folder
	report 1 folder -f flat:-
	has err.log '^kitprof: folder: not a regular file'
	report 1 not-here -f flat:-
	has err.log '^kitprof: not-here: No such file'
	run_says 1 "$KITPROF" report text
	equal "files left behind" "$(ls *.flat *.folded 2>/dev/null)" ""
	# A later version is not guessed at.
	run_says 0 "$KITPROF" run -q -- "$VICTIMS/shares" 1 1 0
	printf '\003' | dd of=prof.kitprof bs=1 seek=8 conv=notrunc 2>/dev/null
	report 1 prof.kitprof -f flat:-
	has err.log '^kitprof: prof.kitprof.*version 3'
	;;
binary)
	cp "$VICTIMS/shares" program
	run_says 0 "$KITPROF" run -q -- ./program 3 1 0
	report 0 prof.kitprof -q -f folded:-
	has out ';fifty [0-9]+$'
	# Another program in its place does not lend its names.
	cp "$VICTIMS/shares-O0-fp-static" program
	report 0 prof.kitprof -q -f folded:-
	has_not out fifty
	has out '^program;.*\[program\+0x[0-9a-f]+\] [0-9]+$'
	rm program
	report 0 prof.kitprof -f folded:-
	has_not out fifty
	has out '^program;.*\[program\+0x[0-9a-f]+\] [0-9]+$'
	has err.log 'unnamed frames [1-9]'
	# Nor do those of another directory, unless they are the one that ran.
	mkdir here there
	cp "$VICTIMS/shares-O0-fp-static" here/program
	report 0 prof.kitprof -q -f folded:- --symbols here
	has_not out fifty
	cp "$VICTIMS/shares" there/program
	report 0 prof.kitprof -q -f folded:- --symbols here --symbols there
	cmp out prof.folded || fail "with the program elsewhere the report is another one"
	report 2 prof.kitprof --symbols nowhere
	# A root of another machine: there the program has its path.
	mkdir -p root"$PWD"
	cp "$VICTIMS/shares-O0-fp-static" root"$PWD"/program
	report 0 prof.kitprof -q -f folded:- --sysroot root
	has_not out fifty
	cp "$VICTIMS/shares" root"$PWD"/program
	report 0 prof.kitprof -q -f folded:- --sysroot root
	cmp out prof.folded || fail "with the program below another root the report is another one"
	report 2 prof.kitprof --sysroot nowhere
	cp "$VICTIMS/shares" program
	report 0 prof.kitprof -q -f folded:-
	cmp out prof.folded || fail "with the program back the report is another one"
	;;
esac
