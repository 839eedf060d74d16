#!/usr/bin/env bash
# all.sh CASE: kitprof on --all, in a PID namespace of its own, whose every process is a victim: also
# the shell that runs this. A process outside shows that nothing is done beyond it.
. "$(dirname "$0")/serve.sh"

# ---- outside ----

# enter CASE: runs it in the namespace; whatever becomes of us, unshare takes all of it along.
enter() {
	local enter=(unshare --pid --fork --mount-proc --kill-child=KILL) status
	if ! "${enter[@]}" true 2>/dev/null; then
		enter=(unshare --user --map-root-user --pid --fork --mount-proc --kill-child=KILL)
		"${enter[@]}" true 2>unshare.err || skip "no PID namespace: $(cat unshare.err)"
	fi
	need_ptrace
	victim outside burn 1
	outside=$pid
	proc_state "$outside" outside.before
	KP_OUTSIDE=$(readlink /proc/self/ns/pid) start inside "${enter[@]}" "$0" "$1"
	inside=$pid
	while is_alive "$inside"; do
		has_agent "$outside" && fail "a process outside of the namespace has the agent"
		sleep 0.02
	done
	wait "$inside"
	status=$?
	[ "$status" -ne 77 ] || skip "$(tail -n 1 inside.log)"
	[ "$status" -eq 0 ] || { cat inside.log >&2; fail "inside: status $status"; }
	same_state "$outside" outside.before "when all inside is over"
	must_work "$outside" "when all inside is over"
	ends_well "$outside" outside
	exit 0
}

# ---- inside ----

[ -n "${KP_OUTSIDE:-}" ] || enter "$1"
[ "$(readlink /proc/self/ns/pid)" != "$KP_OUTSIDE" ] && [ $$ -eq 1 ] && [ -e /proc/1/exe ] ||
	fail "this is no namespace of its own"

note_is() {
	grep -q -e "$1" err || fail "kitprof says: $(cat err)"
}

# What all of this namespace have in common at the end: nothing of ours.
nobody_has_the_agent() {
	local maps
	for maps in /proc/[0-9]*/maps; do
		! grep -q '/memfd:kitprof' "$maps" 2>/dev/null || fail "$maps: the agent is there $1"
	done
}

all_field() {
	"$KITPROF" status | awk -v n="$1" '$1 == "all" { value = $n } END { print value }'
}

all_is() {
	[ "$(all_field 3)" = "$1" ]
}

all_has_samples() {
	[ "$(all_field 5)" -gt "${1:-20}" ]
}

# folded_has PATTERN...: in the newest folded profile.
folded_has() {
	local folded pattern
	folded=$(ls -t results/all-*.folded | head -n 1)
	for pattern in "$@"; do
		grep -q -e "$pattern" "$folded" || fail "no $pattern in $folded: $(cut -c 1-150 "$folded")"
	done
}

server_ends_well() {
	until_true 60 has_ended "$server" || fail "the server does not end"
	wait "$server" || fail "the server ends with $?"
}

# Programs under names that tell them apart; readable for any user.
copy_programs() {
	chmod 755 "$work"
	mkdir -p bin
	cp "$VICTIMS/burn" bin/burn
	cp "$KITPROF" bin/kitprof
	cp "$KITPROFD" bin/kitprofd
	chmod -R a+rX bin
}

# three_victims: two that work and one that sleeps.
three_victims() {
	victim one burn 2
	one=$pid
	victim two burn 1
	two=$pid
	start sleeper sleep 1000
	sleeper=$pid
	until_true 10 in_state "$sleeper" S
	proc_state "$one" one.before
	proc_state "$two" two.before
	proc_state "$sleeper" sleeper.before
}

three_are_well() {
	nobody_has_the_agent "$1"
	same_state "$one" one.before "$1"
	same_state "$two" two.before "$1"
	same_state "$sleeper" sleeper.before "$1"
	must_work "$one" "$1"
	must_work "$two" "$1"
	must_live "$sleeper" "$1"
}

three_end_well() {
	ends_well "$one" one
	ends_well "$two" two
	end_quietly "$sleeper"
}

all_three_have_the_agent() {
	has_agent "$one" && has_agent "$two" && has_agent "$sleeper"
}

is_serving() {
	[ "$(redis-cli -s redis.sock ping 2>/dev/null)" = PONG ]
}

case $1 in
everyone)
	# Nothing is touched before it is said whose processes are meant.
	start one sleep 1000
	one=$pid
	serve
	asks 2 on --all
	note_is 'runs as root.*--user NAME.*--everyone'
	asks 2 on --all --user root --everyone
	asks 2 on --all --user no-such-user
	asks 2 on --everyone "$one"
	asks 2 on --all --everyone "$one"
	asks 2 off --all --session 1
	asks 1 off --all
	note_is 'all are not being profiled'
	answer=$(says_raw <<<'{"command":"on","all":true}')
	[[ $answer == *'"ok":false'*'runs as root'* ]] || fail "whom is not asked: $answer"
	answer=$(says_raw <<<'{"command":"on","pid":1,"options":["--all","--everyone"]}')
	[[ $answer == *'"ok":false'* ]] || fail "all as an option of a process: $answer"
	nobody_has_the_agent "before the first session"
	end_quietly "$one"

	three_victims
	start pipeline bash -c 'while :; do seq 300000 | rev | wc -l; done'
	if command -v redis-server >/dev/null; then
		start redis redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no
		until_true 20 is_serving || fail "redis does not start: $(cat redis.log)"
	fi
	# Elsewhere: a namespace in this one is not a part of it.
	start deeper unshare --pid --fork --mount-proc --kill-child=KILL "$VICTIMS/burn" 1
	until_true 20 says deeper '^ready' || fail "no namespace in the namespace"
	deeper=$(pgrep -P "$pid" -x burn)
	start handles "$TRUTH/target" sigprof
	handles=$pid
	start traces "$TRUTH/target" traced
	tracer=$pid
	until_true 20 says handles '^ready' && until_true 20 says traces '^ready' || fail "no victims"
	traced=$(sed -n 's/^ready //p' traces.log)
	proc_state "$handles" handles.before

	asks 0 on --all --everyone -r 999
	note_is 'on --all: [0-9]* processes sampled, 6 left out (2 refuse: .*handles SIGPROF'
	note_is 'is traced already, by target'
	note_is '3 are kitprof; 1 in another PID namespace)'
	until_true 20 all_has_samples 200 || fail "no samples: $("$KITPROF" status)"
	all_three_have_the_agent || fail "not all have the agent"
	for pid in "$handles" "$traced" "$deeper" "$server"; do
		! has_agent "$pid" || fail "pid $pid has the agent: $(cat /proc/"$pid"/comm)"
	done
	[ "$(all_field 6)" -ge 6 ] || fail "number of processes: $("$KITPROF" status)"
	asks 1 on --all --everyone
	note_is 'all are being profiled already; .kitprof off --all. ends that'
	asks 1 on "$one"
	note_is 'is being profiled already, by kitprof'
	asks 0 status --json
	grep -q '"id":[0-9]*,"all":true,"comm":"everyone","state":"sampling",.*"note":"[0-9]* processes' \
		out || fail "status --json: $(cat out)"

	# One that is nobody's child, as of a new login. It is found by a look.
	(setsid "$VICTIMS/burn" 1 >late.log 2>&1 & echo $! >late.pid)
	late=$(cat late.pid)
	started+=("$late")
	until_true 20 has_agent "$late" || fail "a new process is not found"
	# A tracer that lets go: what was refused is asked again, and here dies with it.
	kill -KILL "$tracer"
	wait "$tracer" 2>/dev/null
	# What is refused stays so, and does no harm.
	! has_agent "$handles" || fail "what handles the signal has the agent"

	asks 0 off --session "$(all_field 7)"
	equal "files that off prints" "$(grep -c '/results/all-everyone-' out)" 3
	folded_has '^burn;.*work' '^seq;' '^rev;'
	says server 'samples of all processes' || fail "closing lines: $(cat server.log)"
	three_are_well "after off"
	same_state "$handles" handles.before "after off"
	must_work "$handles" "after off"
	if command -v redis-server >/dev/null; then
		is_serving || fail "redis does not answer"
	fi
	asks 0 off --all # is over, and still knows where
	kill -TERM "$server"
	server_ends_well
	three_end_well
	;;
user)
	[ "$(id -u)" -eq 0 ] || skip "only root can be somebody else"
	need_tool setpriv
	copy_programs
	as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	"${as_nobody[@]}" bin/burn --version >/dev/null 2>&1 & # may it be executed at all?
	probe=$!
	until_true 20 uses_more "$probe" 0 1 || skip "no other user here"
	end_quietly "$probe"
	victim mine burn 1
	mine=$pid
	start theirs "${as_nobody[@]}" bin/burn 1
	theirs=$pid
	until_true 20 says theirs '^ready' || fail "no victim of another user"
	proc_state "$theirs" theirs.before
	proc_state "$mine" mine.before

	# Root, for somebody.
	serve
	asks 0 on --all --user nobody -r 999
	note_is 'on --all: 1 process sampled, 0 left out;'
	until_true 20 all_has_samples || fail "no samples: $("$KITPROF" status)"
	has_agent "$theirs" || fail "the other user's process is not sampled"
	! has_agent "$mine" && ! has_agent 1 || fail "root's own process is sampled"
	# What becomes somebody else's is left; what becomes theirs is found.
	start becomes "${as_nobody[@]}" bin/burn 1
	becomes=$pid
	until_true 20 has_agent "$becomes" || fail "a new process of the user is not found"
	end_quietly "$becomes"
	# It ends with the last process.
	kill -KILL "$theirs"
	wait "$theirs" 2>/dev/null
	until_true 20 all_is ended || fail "it goes on without any process: $("$KITPROF" status)"
	asks 0 off --all
	folded_has '^burn;.*work'
	kill -TERM "$server"
	server_ends_well
	nobody_has_the_agent "after root's server"
	same_state "$mine" mine.before "after root's server"

	# A server of that user: its own, and nobody else's.
	start theirs "${as_nobody[@]}" bin/burn 1
	theirs=$pid
	until_true 20 says theirs '^ready' || fail "no victim of another user"
	proc_state "$theirs" theirs.before
	mkdir own
	chown 65534:65534 own
	start server "${as_nobody[@]}" env XDG_RUNTIME_DIR="$work/own" bin/kitprofd --dir own
	server=$pid
	until_true 20 says server 'serving at' || fail "no server: $(cat server.log)"
	KITPROF="$work/bin/kitprof"
	own=(--socket "$work/own/kitprofd.sock")
	asks 2 on "${own[@]}" --all --everyone
	note_is 'that user only'
	asks 2 on "${own[@]}" --all --user root
	note_is 'that user only'
	has_agent "$theirs" && fail "a refused request has an effect"
	until_true 10 says server 'serving' # it is still there
	if "$KITPROF" on "${own[@]}" --all --user nobody -r 99 >out 2>err; then
		note_is 'on --all: 1 process sampled, 2 left out (2 are kitprof)'
		sleep 1
		has_agent "$theirs" || fail "the user's process is not sampled"
		! has_agent "$mine" || fail "root's process is sampled"
		asks 0 off "${own[@]}" --all
		ls own | grep -q '^all-nobody-.*folded' || fail "no profile: $(ls own)"
	else
		grep -q -e 'not permitted' err || fail "not sampled: $(cat err)"
	fi
	kill -TERM "$server"
	server_ends_well
	nobody_has_the_agent "after the user's server"
	same_state "$theirs" theirs.before "after the user's server"
	must_work "$theirs" "at the end"
	must_work "$mine" "at the end"
	;;
killed)
	three_victims
	serve
	# The worker: what was sampled can be read, and the next session removes what is left.
	asks 0 on --all --everyone -r 999
	until_true 20 all_has_samples || fail "no samples: $("$KITPROF" status)"
	kill -KILL "$(pgrep -P "$server" | head -n 1)"
	until_true 20 all_is failed || fail "status: $("$KITPROF" status)"
	asks 1 off --all
	note_is 'killed by signal 9; .kitprof report.*the next .kitprof on --all. removes'
	read -r file <out
	"$KITPROF" report -q -o cut.folded --no-flat "$file" || fail "what was sampled is lost"
	grep -q work cut.folded || fail "cut.folded: $(cat cut.folded)"
	all_three_have_the_agent || fail "nothing is left: that was no test"
	must_work "$one" "after its worker was killed"
	asks 0 on --all --everyone -r 999
	asks 0 off --all
	three_are_well "after the next session"

	# A target, in mid-window: the others go on.
	asks 0 on --all --everyone -r 999
	until_true 20 all_has_samples || fail "no samples: $("$KITPROF" status)"
	kill -KILL "$two"
	wait "$two" 2>/dev/null
	samples=$(all_field 5)
	until_true 20 all_has_samples $((samples + 20)) || fail "it does not go on without one"
	victim two burn 1
	two=$pid
	until_true 20 has_agent "$two" || fail "a new process is not found"
	asks 0 off --all
	proc_state "$two" two.before
	three_are_well "after a target was killed"

	# The server: the kernel tells the worker.
	asks 0 on --all --everyone -r 999
	until_true 20 all_has_samples || fail "no samples: $("$KITPROF" status)"
	before=$(ls results/*.folded | wc -l)
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	has_one_more() { [ "$(ls results/*.folded | wc -l)" -gt "$before" ]; }
	until_true 60 has_one_more || fail "no results: $(ls results)"
	folded_has '^burn;.*work'
	until_true 30 has_no_agent "$sleeper" || fail "the agent is left"
	three_are_well "after the server was killed"
	three_end_well
	;;
told)
	three_victims
	for signal in TERM INT HUP; do
		serve
		asks 0 on --all --everyone -r 999
		until_true 20 all_has_samples || fail "no samples: $("$KITPROF" status)"
		kill "-$signal" "$server"
		server_ends_well
		folded_has '^burn;.*work'
		three_are_well "after SIG$signal"
		rm -rf results
	done
	# By time, as any other window.
	serve
	asks 0 on --all --everyone -d 1
	until_true 30 all_is ended || fail "-d does not end it: $("$KITPROF" status)"
	three_are_well "after -d"
	kill -TERM "$server"
	server_ends_well
	three_end_well
	;;
many)
	# Events and rings for 200 processes, with descriptors for less than that.
	victim one burn 2
	one=$pid
	cat >many.py <<'END'
import os, sys, threading, time
for i in range(200):
    if os.fork() == 0:
        for j in range(3):
            threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
        time.sleep(1000)
print("ready", flush=True)
time.sleep(1000)
END
	start many python3 many.py
	until_true 60 says many '^ready' || fail "no crowd: $(cat many.log)"
	sleep 1
	mkdir results
	for limit in "" 600; do
		start server bash -c "${limit:+ulimit -n $limit;} exec \"\$@\"" - "$KITPROFD" --dir results
		server=$pid
		until_true 10 says server 'serving at' || fail "no server: $(cat server.log)"
		asks 0 on --all --everyone -r 999
		cat err
		[ "$(all_field 6)" -ge 200 ] || fail "not all are sampled: $("$KITPROF" status)"
		worker=$(pgrep -P "$server" | head -n 1)
		echo "descriptors: $(ls /proc/"$worker"/fd | wc -l), limit ${limit:-$(ulimit -Hn)};" \
			"$(grep -E 'VmRSS|RssShmem' /proc/"$worker"/status | tr -s '\t\n' ' ')"
		until_true 30 all_has_samples 200 || fail "no samples: $("$KITPROF" status)"
		before=$(cpu_ticks "$worker")
		sleep 5
		echo "CPU time of the worker in 5 s: $(($(cpu_ticks "$worker") - before)) ticks of 10 ms"
		asks 0 off --all
		folded_has '^burn;.*work'
		grep -e explained -e stopped server.log
		nobody_has_the_agent "after off"
		kill -TERM "$server"
		server_ends_well
	done
	must_work "$one" "at the end"
	ends_well "$one" one
	;;
esac
exit 0
