#!/bin/bash
# transparent.sh streams|identity|terminal|status|signals: a program that `kitprof run` starts finds
# what it would find without.
. "$(dirname "$0")/truth.sh"

quiet_run=("$KITPROF" run -q --no-raw --no-folded --no-flat)

# same COMMAND...: with and without, output and exit status. "_" is what bash puts there.
same() {
	env -u _ "$@" >plain 2>plain.err </dev/null
	echo "status $?" >>plain
	cp plain expected
	cp plain.err expected.err
	env -u _ "${quiet_run[@]}" -- "$@" >plain 2>plain.err </dev/null
	echo "status $?" >>plain
	diff -u expected plain || fail "stdout or status of $* differs"
	diff -u expected.err plain.err || fail "stderr of $* differs"
}

enough_samples() {
	[ "$("$RAWDUMP" prof.kitprof 2>/dev/null | grep -c ^sample)" -ge 100 ]
}

case $1 in
streams)
	head -c 3000000 /dev/urandom >in
	"${quiet_run[@]}" -- cat <in >out 2>err.log || fail "cat failed"
	cmp in out || fail "stdin or stdout is not passed through"
	[ ! -s err.log ] || fail "kitprof speaks although it shall be quiet: $(cat err.log)"
	"${quiet_run[@]}" -- sh -c 'cat >&2' <in 2>out || fail "cat failed"
	cmp in out || fail "stderr is not passed through"
	# What kitprof has to say goes to stderr, never among the program's output.
	"$KITPROF" run -- cat <in >out 2>err.log || fail "cat failed"
	cmp in out || fail "kitprof writes to stdout"
	has err.log '^kitprof: wrote '
	# Closed ones stay closed.
	"${quiet_run[@]}" -- sh -c 'ls -l /proc/self/fd/0 >/dev/null 2>&1; echo $?' <&- >out
	equal "descriptor 0" "$(cat out)" 2
	;;
identity)
	same "$VICTIMS/identity"
	has expected '^fd 0 /dev/null'
	for program in identity identity-static; do
		same "$VICTIMS/$program"
		env -u _ "$VICTIMS/identity" odd "$VICTIMS/$program" >plain </dev/null
		cp plain expected
		env -u _ "$VICTIMS/identity" odd "${quiet_run[@]}" -- "$VICTIMS/$program" >plain </dev/null
		diff -u expected plain || fail "$program is not started as without kitprof"
		has expected '^SigBlk:.*4200$'
		has expected '^fd 9 '
	done
	# Found in PATH, with the name that was given.
	PATH=$VICTIMS:$PATH same identity
	same env -i A=1 'B=x y' "$VICTIMS/identity"
	;;
terminal)
	need_tool script
	cat >both <<'END'
"$1" >"$2.plain"
"$3" run -q --no-raw --no-folded --no-flat -- "$1" >"$2.with"
END
	script -qec "sh both '$VICTIMS/identity' tty '$KITPROF'" /dev/null >/dev/null </dev/null
	sed -i 's/tty.plain/tty.with/' tty.plain
	has tty.plain 'terminal [1-9]'
	diff -u tty.plain tty.with || fail "the terminal differs"
	;;
status)
	same true
	same sh -c 'exit 7'
	same sh -c 'exit 255'
	same sh -c 'kill -TERM $$'
	for signal in HUP INT QUIT KILL SEGV ABRT TERM USR1 PIPE ALRM URG PROF; do
		bash -c "ulimit -c 0; kill -$signal \$\$" 2>/dev/null
		wanted=$?
		"${quiet_run[@]}" -- bash -c "ulimit -c 0; kill -$signal \$\$" 2>/dev/null
		equal "status after SIG$signal" $? "$wanted"
	done
	run_says 127 "$KITPROF" run -- kitprof-no-such-program
	has err.log '^kitprof: .*kitprof-no-such-program'
	run_says 127 "$KITPROF" run -- ./not-here
	echo 'not a program' >text
	run_says 126 "$KITPROF" run -- ./text
	chmod +x text
	mkdir folder
	run_says 126 "$KITPROF" run -- ./folder
	printf '#!/no/such/interpreter\n' >script
	chmod +x script
	run_says 127 "$KITPROF" run -- ./script
	equal "files left behind" "$(ls prof.* 2>/dev/null)" ""
	;;
signals)
	cat >trapper <<'END'
trap 'echo got TERM; exit 5' TERM
trap 'echo got HUP' HUP
echo ready
for i in $(seq 400); do sleep 0.05; done
END
	# What is sent to kitprof alone reaches the program.
	start trapper "$KITPROF" run -- bash trapper
	until_true 20 says trapper ready || fail "trapper does not start"
	kill -HUP "$pid"
	until_true 20 says trapper 'got HUP' || fail "SIGHUP is not passed on"
	kill -TERM "$pid"
	wait "$pid"
	equal "exit status after SIGTERM" $? 5
	says trapper 'got TERM' || fail "SIGTERM is not passed on"
	account prof.kitprof
	rm prof.*

	# Ctrl-C reaches both: the program decides, and sees it once; kitprof writes the profile.
	set -m
	start counter "$KITPROF" run -- "$VICTIMS/target" interrupts
	set +m
	until_true 20 says counter ready || fail "the program does not start"
	# kitprof gets it later: two at once would be one.
	kill -STOP "$pid"
	in_state "$pid" T || until_true 5 in_state "$pid" T
	kill -INT -- "-$pid"
	until_true 20 says counter first || fail "the program gets no SIGINT"
	kill -CONT "$pid"
	wait "$pid"
	equal "exit status after Ctrl-C" $? 6
	says counter '^interrupts 1$' || fail "not one SIGINT: $(cat counter.log)"
	account prof.kitprof
	rm prof.*

	# A program that does nothing about it dies of it.
	set -m
	start burner "$KITPROF" run -- "$VICTIMS/shares" 400 2 0
	set +m
	until_true 20 test -s prof.kitprof || fail "sampling does not begin"
	until_true 20 enough_samples
	kill -INT -- "-$pid"
	wait "$pid"
	equal "exit status after Ctrl-C" $? 130
	account prof.kitprof
	has prof.folded fifty
	;;
esac
