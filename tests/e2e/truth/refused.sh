#!/bin/bash
# refused.sh CASE: what kitprof will not do it says why and how else, and touches nothing: not the
# target, not the results of an earlier session.
. "$(dirname "$0")/truth.sh"

for file in prof.folded prof.flat prof.kitprof; do
	echo "of an earlier session" >"$file"
done

# refused PID PATTERN [OPTIONS...]: exit status 1 and a line that matches; all is as before.
refused() {
	local target=$1 pattern=$2

	shift 2
	run_says 1 "$KITPROF" record --pid "$target" -d 1 "$@"
	has err.log "^kitprof: $pattern"
	equal "lines of the message" "$(wc -l <err.log)" 1
	equal stdout "$(cat out)" ""
	untouched
}

untouched() {
	local file

	for file in prof.folded prof.flat prof.kitprof; do
		equal "$file" "$(cat "$file")" "of an earlier session"
	done
	equal "number of files" "$(ls | grep -c '^prof')" 3
}

# target MODE: starts it; $pid is the process, $id what it says.
target() {
	start target "$VICTIMS/target" "$1"
	until_true 20 says target '^ready' || fail "no target"
	id=$(sed -n 's/^ready //p' target.log)
}

case $1 in
gone)
	refused 2147483647 'pid 2147483647: no such process'
	rm prof.kitprof
	run_says 1 "$KITPROF" record --pid 2147483647
	[ ! -e prof.kitprof ] || fail "an empty raw profile is left behind"
	;;
kernel-thread)
	# PF_KTHREAD is 0x00200000, flags are the seventh field behind the name
	flags=$(sed 's/.*) //' /proc/2/stat 2>/dev/null | cut -d ' ' -f 7)
	[ $((${flags:-0} & 0x200000)) != 0 ] || skip "no kernel thread is to be seen from here"
	refused 2 'pid 2 \(.*\) is a kernel thread'
	;;
32-bit)
	cat >loop.s <<'END'
.globl _start
_start:	jmp _start
END
	as --32 -o loop.o loop.s && ld -m elf_i386 -o loop loop.o || skip "no 32-bit assembler or linker"
	start target ./loop
	until_true 5 uses_more "$pid" 0 3 || skip "the kernel runs no 32-bit programs"
	proc_state "$pid" before
	refused "$pid" "pid $pid is a 32-bit program.*64"
	same_state "$pid" before "after a refusal"
	must_work "$pid" "after a refusal"
	rm prof.*
	# `run` leaves nothing running.
	run_says 125 "$KITPROF" run -- ./loop
	has err.log 'is a 32-bit pro'
	;;
sigprof)
	need_ptrace
	target sigprof
	proc_state "$pid" before
	refused "$pid" "pid $pid handles SIGPROF itself.*--signal URG"
	refused "$pid" "pid $pid handles SIGPROF itself.*--signal" --signal PROF
	same_state "$pid" before "after a refusal"
	run_says 0 "$KITPROF" record --pid "$pid" -d 1 --signal URG
	has err.log SIGURG
	has prof.folded ';work [0-9]+$'
	account prof.kitprof 80 110
	same_state "$pid" before "after profiling with --signal URG"
	must_work "$pid" "after profiling with --signal URG"
	;;
traced)
	target traced
	proc_state "$id" before
	refused "$id" "pid $id is traced already, by target \(pid $pid\)"
	same_state "$id" before "after a refusal"
	;;
user)
	[ "$(id -u)" = 0 ] || skip "only root can become another user"
	need_tool setpriv
	target plain
	proc_state "$pid" before
	mkdir -m 777 theirs
	chmod 755 .
	cd theirs || exit 1
	other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	"${other[@]}" "$KITPROF" --version >/dev/null 2>&1 || skip "another user cannot execute $KITPROF"
	run_says 1 "${other[@]}" "$KITPROF" record --pid "$pid" -d 1
	has err.log "^kitprof: pid $pid: not permitted: it runs as uid 0, kitprof as uid 65534"
	equal "files left behind" "$(ls | grep prof)" ""
	cd ..
	untouched
	same_state "$pid" before "after a refusal"
	must_work "$pid" "after a refusal"
	# One's own processes can be profiled without being root, except where Yama is strict.
	cd theirs || exit 1
	run_says 7 "${other[@]}" "$KITPROF" run -- "$VICTIMS/shares" 3 1 7
	account prof.kitprof 85 110
	;;
itself)
	run_says 1 sh -c "exec '$KITPROF' record --pid \$\$ -d 1"
	has err.log 'is kitprof itself'
	untouched
	run_says 2 "$KITPROF" record --pid self
	has err.log '--pid self'
	untouched
	;;
thread)
	target thread
	proc_state "$pid" before
	refused "$id" "$id is a thread of process $pid: use --pid $pid"
	same_state "$pid" before "after a refusal"
	;;
zombie)
	target zombie
	refused "$id" "pid $id \(target\) has ended already \(zombie\)"
	;;
second)
	need_ptrace
	target plain
	proc_state "$pid" before
	mkdir first
	cd first || exit 1
	target=$pid
	start first "$KITPROF" record --pid "$target" -d 60 -o "$work/first/prof.folded"
	first=$pid
	cd ..
	until_true 20 has_agent "$target" || fail "the first does not begin"
	until_true 20 test -s first/prof.kitprof
	refused "$target" "pid $target is being profiled already, by kitprof with pid $first"
	kill -INT "$first"
	wait "$first"
	equal "exit status of the first" $? 0
	cat first.log
	account first/prof.kitprof
	same_state "$target" before "after both"
	must_work "$target" "after both"
	;;
esac
