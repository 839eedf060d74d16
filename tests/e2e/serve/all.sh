#!/usr/bin/env bash
# all.sh CASE: `kitprof on --all`, in a PID namespace of its own: nothing outside of it is touched.
if [ "${KITPROF_INSIDE-}" != yes ]; then
	unshare --pid --fork --mount-proc true 2>/dev/null || {
		echo "skipped: no PID namespace can be made here"
		exit 77
	}
	# The shell in between is pid 1 there; all that is left in there ends with it.
	exec unshare --pid --fork --kill-child --mount-proc \
		sh -c 'KITPROF_INSIDE=yes "$@"; exit $?' sh "$0" "$@"
fi
. "$(dirname "$0")/serve.sh"
need_ptrace

samples_of_all() {
	"$KITPROF" status | awk '$1 == "all" && $3 == "sampling" { n = $5 } END { print n + 0 }'
}

processes_of_all() {
	"$KITPROF" status | awk '$1 == "all" && $3 == "sampling" { n = $6 } END { print n + 0 }'
}

has_samples_of_all() {
	[ "$(samples_of_all)" -gt "$1" ]
}

samples_so_many_processes() {
	[ "$(processes_of_all)" -ge "$1" ]
}

# ends: the session is over, and its files are in $raw and $folded.
ends() {
	asks 0 off --all
	raw=$(grep '\.kitprof$' out)
	folded=$(grep '\.folded$' out)
	[ -s "$raw" ] && [ -s "$folded" ] || fail "off prints no results: $(cat out err)"
	"$KITPROF" report --stats --json "$raw" >stats.json || fail "report of $raw"
	python3 - <<'END' || fail "the books do not balance: $(grep -o '"samples_[a-z]*": [0-9]*' stats.json)"
import json
s = json.load(open("stats.json"))
assert s["samples_taken"] == s["samples_kept"] + s["samples_dropped"]
assert s["samples_dropped"] == 0
END
}

is_sampled() {
	grep -q "^$1;.*work" "$folded" || fail "$1 was not sampled: $(cut -d';' -f1 "$folded" | sort | uniq -c)"
}

is_not_sampled() {
	! grep -q "^$1;" "$folded" || fail "$1 was sampled"
}

# as_nobody NAME: a victim of another user.
as_nobody() {
	command -v setpriv >/dev/null || skip "setpriv is not installed"
	cp "$VICTIMS/burn" "$1"
	chmod 755 "$work" "$1"
	start "$1" setpriv --reuid 65534 --regid 65534 --clear-groups "$work/$1" 1
	until_true 20 says "$1" '^ready' || fail "$1 does not get ready: $(cat "$1.log")"
}

# named NAME THREADS: a victim of that name.
named() {
	cp "$VICTIMS/burn" "$1"
	start "$1" "./$1" "$2"
	until_true 20 says "$1" '^ready' || fail "$1 does not get ready: $(cat "$1.log")"
}

# start_sleepers N: so many processes that do nothing.
start_sleepers() {
	local i
	sleepers=()
	for ((i = 0; i < $1; i++)); do
		start sleeper sleep 1000
		sleepers+=("$pid")
	done
}

# They live without a trace; then they end.
sleepers_are_well() {
	local sleeper
	for sleeper in "${sleepers[@]}"; do
		must_live "$sleeper" "after off"
		has_agent "$sleeper" && fail "the agent is left in a sleeper"
	done
	kill -KILL "${sleepers[@]}"
	wait "${sleepers[@]}" 2>/dev/null
}

# serve_with N: a server that may open so many files.
serve_with() {
	mkdir -p results
	rm -f server.log
	(ulimit -n "$1" && exec "$KITPROFD" --dir "$work/results" >server.log 2>&1) &
	server=$!
	started+=("$server")
	until_true 10 says server 'serving at' || fail "no server: $(cat server.log)"
}

# weight NAME-PID: periods of CPU time in the profile, by.folded.
weight() {
	awk -v process="$1" '{ split($0, frame, ";"); if (frame[1] == process) n += $NF } END { print n + 0 }' by.folded
}

# must_weigh NAME PID PERIODS: within a fifth, and what a dozen of samples may be off.
must_weigh() {
	local got
	got=$(weight "$1-$2")
	awk -v got="$got" -v wanted="$3" 'BEGIN { d = got - wanted; if (d < 0) d = -d; exit d > wanted / 5 + 12 }' ||
		fail "$1 has $got periods of CPU time, expected $3: $(cut -d';' -f1 by.folded | sort | uniq -c)"
}

nobody_has_agent() {
	! grep -qs /memfd:kitprof /proc/[0-9]*/maps
}

no_kitprof() {
	! pgrep -x 'kitprofd?' >/dev/null
}

# plain_user: the same of a server that is not root's; $theirs is all that its user has.
plain_user() {
	local as=(setpriv --reuid 65534 --regid 65534 --clear-groups env "XDG_CACHE_HOME=$work/own")
	mkdir -p own/results
	cp "$KITPROF" "$KITPROFD" own
	chown -R 65534 own
	start server "${as[@]}" own/kitprofd --dir own/results --socket own/socket
	until_true 10 says server 'serving at' || fail "no server: $(cat server.log)"
	"${as[@]}" own/kitprof on --all --everyone --socket own/socket 2>err
	equal "exit status of --everyone" "$?" 2
	"${as[@]}" own/kitprof on --all --user root --socket own/socket 2>err
	equal "exit status of --user root" "$?" 2
	"${as[@]}" own/kitprof on --all --socket own/socket 2>err || fail "a user's own --all: $(cat err)"
	has_agent "$theirs" || fail "a user's own process is not sampled: $(cat err)"
	has_agent "$ours" && fail "root's process is sampled by a user"
	until_true 60 uses_more "$theirs" "$(cpu_ticks "$theirs")" 30 || fail "theirs does not run"
	"${as[@]}" own/kitprof off --all --socket own/socket >out 2>err || fail "off --all: $(cat err)"
	grep -q '^theirs;.*work' own/results/all-*.folded || fail "no samples: $(cat own/results/*.folded)"
}

[ "$(id -u)" -eq 0 ] || skip "only root can profile those of others"
case $1 in
everyone)
	named first 2
	first=$pid
	start sleeper sleep 1000
	sleeper=$pid
	as_nobody theirs
	theirs=$pid
	proc_state "$first" first.before
	proc_state "$sleeper" sleeper.before
	proc_state "$theirs" theirs.before
	serve
	asks 0 on --all --everyone -r 199
	until_true 20 has_samples_of_all 50 || fail "no samples: $("$KITPROF" status)"
	# One that comes later, and is nobody's child that is watched.
	named later 1
	later=$pid
	until_true 20 has_agent "$later" || fail "what comes later is not sampled: $("$KITPROF" status)"
	has_agent "$sleeper" || fail "what sleeps has no agent"
	n=$(samples_of_all)
	until_true 20 has_samples_of_all $((n + 100)) || fail "no more samples: $("$KITPROF" status)"
	has_agent "$server" && fail "the server profiles itself"
	ends
	for name in first later theirs; do
		is_sampled "$name"
	done
	is_not_sampled kitprofd
	same_state "$first" first.before "after off"
	same_state "$sleeper" sleeper.before "after off"
	same_state "$theirs" theirs.before "after off"
	has_agent "$later" && fail "the agent is left in what came later"
	for name in first later theirs; do
		ends_well "${!name}" "$name"
	done
	;;
user)
	named ours 1
	ours=$pid
	as_nobody theirs
	theirs=$pid
	proc_state "$ours" ours.before
	proc_state "$theirs" theirs.before
	serve
	asks 2 on --all
	grep -q -e '--user NAME' err || fail "the remedy is not said: $(cat err)"
	asks 2 on --all --user nobody --everyone
	asks 2 on --all --user there-is-none
	same_state "$ours" ours.before "after refusals"
	asks 0 on --all --user 65534 -r 499
	until_true 20 has_samples_of_all 50 || fail "no samples: $("$KITPROF" status)"
	has_agent "$ours" && fail "a process of another user is profiled"
	ends
	is_sampled theirs
	is_not_sampled ours
	same_state "$ours" ours.before "after off"
	same_state "$theirs" theirs.before "after off"
	ends_well "$ours" ours
	ends_well "$theirs" theirs
	;;
killed)
	named first 1
	first=$pid
	named second 1
	second=$pid
	proc_state "$second" second.before
	serve
	asks 0 on --all --everyone -r 499
	until_true 20 has_samples_of_all 50 || fail "no samples: $("$KITPROF" status)"
	end_quietly "$first"
	n=$(samples_of_all)
	until_true 20 has_samples_of_all $((n + 100)) || fail "it does not go on: $("$KITPROF" status)"
	ends
	is_sampled first
	is_sampled second
	same_state "$second" second.before "after off"
	# The server dies; its worker ends the session and leaves no trace.
	asks 0 on --all --everyone -r 499
	until_true 20 has_samples_of_all 50 || fail "no samples: $("$KITPROF" status)"
	end_quietly "$server"
	until_true 30 has_no_agent "$second" || fail "the agent stays after the server's death"
	same_state "$second" second.before "after the server's death"
	ends_well "$second" second
	;;
many)
	start_sleepers 40
	named busy 2
	busy=$pid
	proc_state "$busy" busy.before
	serve
	asks 0 on --all --everyone -r 499
	until_true 30 samples_so_many_processes 42 || fail "not all are sampled: $("$KITPROF" status)"
	n=$(samples_of_all)
	until_true 20 has_samples_of_all $((n + 300)) || fail "no samples: $("$KITPROF" status)"
	ends
	is_sampled busy
	sleepers_are_well
	same_state "$busy" busy.before "after off"
	ends_well "$busy" busy
	;;
few)
	# With few descriptors there are none for events, and timers do it alone; all are as they were.
	start_sleepers 30
	named busy 1
	busy=$pid
	proc_state "$busy" busy.before
	# So few that it can sample nothing at all.
	serve_with 48
	asks 1 on --all --everyone
	grep -q 'for want of descriptors' err || fail "the reason is not said: $(cat err)"
	same_state "$busy" busy.before "after what was not begun"
	kill -TERM "$server"
	until_true 20 has_ended "$server" || fail "the server does not end"
	serve_with 100
	asks 0 on --all --everyone -r 499
	until_true 20 has_samples_of_all 50 || fail "no samples: $("$KITPROF" status)"
	ends
	is_sampled busy
	sleepers_are_well
	same_state "$busy" busy.before "after off"
	ends_well "$busy" busy
	;;
refused)
	named ours 1
	ours=$pid
	as_nobody theirs
	theirs=$pid
	proc_state "$ours" ours.before
	proc_state "$theirs" theirs.before
	serve
	answer=$(says_raw <<<'{"command":"on","all":true}')
	[[ $answer == *'"ok":false'*'say whose processes are meant: --user NAME, or --everyone'* ]] ||
		fail "the server says: $answer"
	asks 2 on --everyone "$ours"
	asks 2 on --user root "$ours"
	asks 2 on --all "$ours"
	equal "sessions" "$("$KITPROF" status | grep -c -e sampling -e starting)" 0
	kill -TERM "$server"
	until_true 20 has_ended "$server" || fail "the server does not end"
	plain_user
	same_state "$ours" ours.before "at the end"
	same_state "$theirs" theirs.before "at the end"
	ends_well "$ours" ours
	ends_well "$theirs" theirs
	;;
told)
	named busy 1
	busy=$pid
	start taken python3 -c '
import signal, time
signal.signal(signal.SIGPROF, lambda *a: None)
print("ready", flush=True)
time.sleep(1000)'
	taken=$pid
	until_true 20 says taken '^ready' || fail "no program that refuses: $(cat taken.log)"
	proc_state "$taken" taken.before
	serve
	start waits "$KITPROFD" --dir results --socket "$work/second"
	waits=$pid
	until_true 10 says waits 'serving at' || fail "no other server"
	asks 0 on --all --everyone
	# The server, its worker and what that has started, and the other one.
	grep -Eq 'on --all: [0-9]+ processes sampled, [0-9]+ left out \(1 refuses: .*SIGPROF.*; [0-9]+ are kitprof\)' err ||
		fail "on says: $(cat err)"
	read -r sampled left kitprofs < <(sed -E 's/.*: ([0-9]+) processes sampled, ([0-9]+) left out.*; ([0-9]+) are kitprof.*/\1 \2 \3/' err)
	equal "left out" "$left" $((kitprofs + 1))
	[ "$kitprofs" -ge 3 ] || fail "$kitprofs are kitprof, at least 3 run"
	# busy, this shell and the one before it, which have children now and then.
	[ "$sampled" -ge 3 ] && [ "$sampled" -le 5 ] || fail "$sampled are sampled"
	for name in taken server waits; do
		has_agent "${!name}" && fail "$name is attached to"
	done
	until_true 20 has_samples_of_all 10 || fail "no samples: $("$KITPROF" status)"
	ends
	same_state "$taken" taken.before "after off"
	nobody_has_agent || fail "the agent is left"
	ends_well "$busy" busy
	;;
shares)
	# Each has what it used, and so has a child that a sleeping parent has in the window.
	named busy 1
	busy=$pid
	named crew 3
	crew=$pid
	cp "$VICTIMS/burn" late
	mkfifo fifo
	start parent sh -c 'read -r _ <fifo; exec ./late 1 & wait'
	parent=$pid
	serve
	asks 0 on --all --everyone
	ticks=("$(cpu_ticks "$busy")" "$(cpu_ticks "$crew")")
	echo >fifo
	until_true 20 says parent '^ready' || fail "no child: $(cat parent.log)"
	late=$(pgrep -P "$parent" -x late)
	until_true 60 uses_more "$busy" "${ticks[0]}" 80 || fail "busy does not run"
	# A tick is 1/100 s, a period 1/99 s.
	wanted=($((($(cpu_ticks "$busy") - ticks[0]) * 99 / 100)) $((($(cpu_ticks "$crew") - ticks[1]) * 99 / 100))
		$(($(cpu_ticks "$late") * 99 / 100)))
	ends
	"$KITPROF" report -q --per-process -o by.folded --no-flat "$raw" || fail "$raw cannot be read"
	must_weigh busy "$busy" "${wanted[0]}"
	must_weigh crew "$crew" "${wanted[1]}"
	must_weigh late "$late" "${wanted[2]}"
	nobody_has_agent || fail "the agent is left"
	kill -TERM "$late"
	ends_well "$busy" busy
	ends_well "$crew" crew
	;;
worker)
	# All of kitprof is killed: what was sampled can be read, and the next session removes the rest.
	named busy 1
	busy=$pid
	start sleeper sleep 1000
	sleeper=$pid
	proc_state "$busy" busy.before
	proc_state "$sleeper" sleeper.before
	serve
	asks 0 on --all --everyone
	until_true 60 has_samples_of_all 20 || fail "no samples: $("$KITPROF" status)"
	kill -KILL "$server" $(pgrep -P "$server")
	wait "$server" 2>/dev/null
	until_true 30 no_kitprof || fail "a process of kitprof is left"
	must_work "$busy" "after all of kitprof was killed"
	must_live "$sleeper" "after all of kitprof was killed"
	raws=(results/all-*.kitprof)
	"$KITPROF" report -q -o cut.folded --no-flat "${raws[0]}" || fail "what was sampled is lost"
	grep -q "^busy;.*work" cut.folded || fail "cut.folded: $(cat cut.folded)"
	serve
	asks 0 on --all --everyone
	until_true 60 has_samples_of_all 5 || fail "no samples: $("$KITPROF" status)"
	ends
	nobody_has_agent || fail "the agent is left"
	same_state "$busy" busy.before "after another session"
	same_state "$sleeper" sleeper.before "after another session"
	ends_well "$busy" busy
	;;
esac
