#!/usr/bin/env bash
# control.sh CASE: kitprofd serves its socket. Whoever dies, nothing that was recorded is lost, and
# the targets are unharmed.
. "$(dirname "$0")/serve.sh"
need_ptrace

# two_targets: $one and $two run, what they are like is in one.before and two.before.
two_targets() {
	victim one burn 2
	one=$pid
	victim two burn 1
	two=$pid
	proc_state "$one" one.before
	proc_state "$two" two.before
}

both_are_well() {
	same_state "$one" one.before "$1"
	same_state "$two" two.before "$1"
	must_work "$one" "$1"
	must_work "$two" "$1"
	ends_well "$one" one
	ends_well "$two" two
}

both_are_sampled() {
	asks 0 on "$one" -r 999
	asks 0 on -q "$two"
	until_true 20 has_samples_in_status "$one" || fail "no samples: $("$KITPROF" status)"
	until_true 20 has_samples_in_status "$two" || fail "no samples: $("$KITPROF" status)"
}

both_have_profiles() {
	has_profile "$one" burn && has_profile "$two" burn
}

server_ends_well() {
	local status
	until_true 30 has_ended "$server" || fail "the server does not end"
	wait "$server"
	status=$?
	equal "exit status of the server" "$status" 0
	[ ! -e "$socket" ] || fail "the socket is left behind"
}

case $1 in
two)
	two_targets
	serve
	asks 0 status
	equal "lines of an empty status" "$(wc -l <out)" 2
	both_are_sampled
	is_in_status "$one" sampling || fail "status: $("$KITPROF" status)"
	"$KITPROF" status | grep -q -e '-r 999' || fail "options are not in: $("$KITPROF" status)"
	asks 0 off "$one"
	equal "files that off prints" "$(wc -l <out)" 3
	while read -r file; do
		[ -s "$file" ] || fail "off prints $file, which is not there"
	done <out
	has_profile "$one" burn || fail "no profile of the first: $(ls results)"
	same_state "$one" one.before "after off"
	is_in_status "$one" ended || fail "status after off: $("$KITPROF" status)"
	is_in_status "$two" sampling || fail "the other one ended as well: $("$KITPROF" status)"
	# Once more, other formats; names of the first are left alone.
	asks 0 on "$one" -r 999 -f pprof --no-flat -d 1
	until_true 20 is_in_status "$one" ended || fail "-d does not end it: $("$KITPROF" status)"
	equal "profiles for pprof" "$(ls results/*.pb.gz | wc -l)" 1
	equal "raw profiles of the first" "$(ls results/burn-"$one"-*.kitprof | wc -l)" 2
	"$KITPROF" status --json | python3 -c '
import json, sys
answer = json.load(sys.stdin)
states = [s["state"] for s in answer["sessions"]]
assert sorted(states) == ["ended", "ended", "sampling"], states
assert all(s["samples"] > 0 and s["files"] for s in answer["sessions"])' || fail "status --json"
	asks 0 off "$two"
	has_profile "$two" burn || fail "no profile of the second: $(ls results)"
	asks 0 off "$two" # is over, and still knows where
	kill -TERM "$server"
	server_ends_well
	both_are_well "at the end"
	;;
again)
	two_targets
	serve
	asks 0 on "$one"
	asks 1 on "$one"
	grep -q "pid $one is being profiled already; .kitprof off $one. ends that" err || fail "$(cat err)"
	asks 1 off "$two"
	grep -q "pid $two is not being profiled" err || fail "$(cat err)"
	asks 1 on 2147483647
	grep -q 'no such process' err || fail "$(cat err)"
	asks 2 on "$two" -f "flat:$work/here"
	asks 2 on "$two" -o here
	asks 2 on
	asks 2 off x
	asks 2 status x
	asks 2 on "$two" --signal KILL
	equal "sessions" "$("$KITPROF" status | grep -c ' sampling ')" 1
	# Somebody else's session is in its way: the worker says so, or the check before.
	start record "$KITPROF" record --pid "$two" -d 60 --no-raw --no-folded --no-flat -q
	until_true 20 has_agent "$two" || fail "no window"
	asks 1 on "$two"
	equal "sessions" "$("$KITPROF" status | grep -c ' sampling ')" 1
	kill -INT "$pid"
	wait "$pid"
	asks 0 on "$two"
	kill -TERM "$server"
	server_ends_well
	both_are_well "at the end"
	;;
target-dies)
	two_targets
	serve
	both_are_sampled
	kill -KILL "$one"
	wait "$one" 2>/dev/null
	until_true 20 is_in_status "$one" ended || fail "its end is not seen: $("$KITPROF" status)"
	has_profile "$one" burn || fail "no profile of the dead one: $(ls results)"
	asks 0 off "$one"
	equal "files that off prints" "$(wc -l <out)" 3
	is_in_status "$two" sampling || fail "the other one ended as well"
	asks 0 off "$two"
	same_state "$two" two.before "at the end"
	ends_well "$two" two
	kill -INT "$server"
	server_ends_well
	;;
client-dies)
	two_targets
	serve
	# One that says half a word, one that asks and goes before the answer comes.
	start half python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"{\"command\":")
print("ready", flush=True)
time.sleep(600)' "$socket"
	until_true 20 says half ready || fail "no client"
	both_are_sampled
	kill -KILL "$pid"
	python3 -c '
import socket, sys
for pid in sys.argv[2:]:
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(b"{\"command\":\"off\",\"pid\":%d}\n" % int(pid))
    s.close()' "$socket" "$one" "$two"
	until_true 20 is_in_status "$one" ended || fail "it was not heard: $("$KITPROF" status)"
	until_true 20 is_in_status "$two" ended || fail "it was not heard: $("$KITPROF" status)"
	both_have_profiles || fail "no profiles: $(ls results)"
	kill -HUP "$server"
	server_ends_well
	both_are_well "at the end"
	;;
server-killed)
	two_targets
	serve
	both_are_sampled
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	asks 1 status
	grep -q 'no kitprofd is listening at .*: start `kitprofd`' err || fail "$(cat err)"
	# Nobody tells the workers but the kernel.
	until_true 30 both_have_profiles || fail "no profiles: $(ls results)"
	until_true 10 has_no_agent "$one" || fail "the agent is still there"
	until_true 10 has_no_agent "$two" || fail "the agent is still there"
	same_state "$one" one.before "after the server was killed"
	same_state "$two" two.before "after the server was killed"
	# The socket of the dead one is no obstacle.
	serve
	asks 0 on "$one"
	asks 0 status
	kill -TERM "$server"
	server_ends_well
	both_are_well "at the end"
	;;
worker-killed)
	two_targets
	serve
	both_are_sampled
	for worker in $(pgrep -P "$server"); do
		kill -KILL "$worker"
	done
	until_true 20 is_in_status "$one" failed || fail "status: $("$KITPROF" status)"
	asks 1 off "$one"
	grep -q 'killed by signal 9; .kitprof report.' err || fail "$(cat err)"
	read -r file <out
	"$KITPROF" report -q -o cut.folded --no-flat "$file" || fail "what was sampled is lost"
	grep -q work cut.folded || fail "cut.folded: $(cat cut.folded)"
	# The next session removes what is left.
	asks 0 on "$one"
	asks 0 on "$two"
	kill -TERM "$server"
	server_ends_well
	both_are_well "at the end"
	;;
told)
	two_targets
	for signal in TERM INT HUP; do
		rm -rf results
		serve
		both_are_sampled
		kill "-$signal" "$server"
		server_ends_well
		both_have_profiles || fail "no profiles after SIG$signal: $(ls results)"
		same_state "$one" one.before "after SIG$signal"
		same_state "$two" two.before "after SIG$signal"
	done
	both_are_well "at the end"
	;;
strangers)
	[ "$(id -u)" -eq 0 ] || skip "only root can be somebody else"
	need_tool setpriv
	two_targets
	serve
	equal "mode of the socket" "$(stat -c %a "$socket")" 600
	cp "$KITPROF" kitprof
	chmod 755 "$work" kitprof
	as_nobody() {
		setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
	}
	as_nobody ./kitprof on --socket "$socket" "$one" 2>err && fail "a stranger is let in"
	grep -q 'Permission denied' err || fail "$(cat err)"
	# Even if somebody opens the door, the kernel says who it is.
	chmod 666 "$socket"
	as_nobody ./kitprof on --socket "$socket" "$one" 2>err && fail "a stranger is let in"
	grep -q 'serves its own user only' err || fail "$(cat err)"
	says server 'refused a client of uid 65534' || fail "it is not said: $(cat server.log)"
	equal "sessions" "$("$KITPROF" status | grep -c ' sampling ')" 0
	kill -TERM "$server"
	server_ends_well
	both_are_well "at the end"
	;;
garbage)
	victim one burn 1
	one=$pid
	serve
	for text in 'on 5' '{}' '[]' '{"command":"all"}' '{"command":"on","pid":-5}' '{"command":"off"}' \
		'{"command":"on","pid":5,"options":["--wat"]}' '{"command":"on","pid":5,"options":["5"]}' \
		'{"command":"on","pid":5,"options":["-h"]}' '{"command":"on","pid":5,"options":["-f","flat:/x"]}' \
		'{"command":"on","pid":5,"options":["-d"]}' '{"command":"on","pid":5,"options":["-o","/x"]}'; do
		answer=$(says_raw <<<"$text")
		[[ $answer == '{"version":1,"ok":false,"error":"'* ]] || fail "$text is answered with: $answer"
	done
	answer=$(head -c 100000 /dev/zero | tr '\0' x | says_raw)
	[[ $answer == *'too long'* ]] || fail "a long line is answered with: $answer"
	for ((i = 0; i < 20; i++)); do
		answer=$( (head -c 300 /dev/urandom | tr -d '\n'; echo) | says_raw)
		[[ $answer == *'"ok":false'* ]] || fail "noise is answered with: $answer"
	done
	# Unknown fields are for later versions; several requests may follow each other.
	answer=$(says_raw <<<'{"command":"status","later":[1,{"x":2}]}')
	[[ $answer == *'"ok":true'* ]] || fail "an unknown field is answered with: $answer"
	# More clients than there is room for, all silent: the others wait until they are let go.
	start crowd python3 -c '
import socket, sys, time
crowd = []
for i in range(40):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    crowd.append(s)
print("ready", flush=True)
time.sleep(600)' "$socket"
	until_true 20 says crowd ready || fail "no crowd: $(cat crowd.log)"
	asks 0 on "$one" -r 999
	until_true 20 has_samples_in_status "$one" || fail "no samples: $("$KITPROF" status)"
	asks 0 off "$one"
	has_profile "$one" burn || fail "no profile: $(ls results)"
	kill -TERM "$server"
	server_ends_well
	ends_well "$one" one
	;;
socket)
	mkdir results
	asks 1 status --socket "$work/none"
	grep -q "no kitprofd is listening at $work/none: start .kitprofd." err || fail "$(cat err)"
	serve
	"$KITPROFD" --dir results 2>err && fail "a second server"
	grep -q 'another kitprofd listens at' err || fail "$(cat err)"
	asks 0 status
	# Another path, another server.
	start other "$KITPROFD" --dir results --socket "$work/other" -q
	other=$pid
	until_true 10 test -S "$work/other" || fail "no other server"
	asks 0 status --socket="$work/other"
	kill -TERM "$other"
	wait "$other" || fail "the other server says $?: $(cat other.log)"
	equal "what a quiet server says" "$(cat other.log)" ""
	echo precious >file
	"$KITPROFD" --socket file 2>err && fail "a file is taken for a socket"
	equal "the file" "$(cat file)" precious
	for words in "-r 99" "-o x" "--window 5s" "--keep 5" "x" "--dir file" "--pid $$ --socket s" \
		"--pid $$ --keep 5" "--pid $$ --dir results" "--pid $$ --window 10ms"; do
		"$KITPROFD" $words 2>err && fail "kitprofd $words is accepted"
		equal "lines of the message for $words" "$(wc -l <err)" 1
	done
	kill -TERM "$server"
	server_ends_well
	;;
esac
