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

# serve_with N: a server that may open so many files.
serve_with() {
	mkdir -p results
	rm -f server.log
	(ulimit -n "$1" && exec "$KITPROFD" --dir "$work/results" >server.log 2>&1) &
	server=$!
	started+=("$server")
	until_true 10 says server 'serving at' || fail "no server: $(cat server.log)"
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
	for ((i = 0; i < 40; i++)); do
		start sleeper sleep 1000
		sleepers+=("$pid")
	done
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
	for pid in "${sleepers[@]}"; do
		must_live "$pid" "after off"
		has_agent "$pid" && fail "the agent is left in a sleeper"
	done
	kill -KILL "${sleepers[@]}"
	wait "${sleepers[@]}" 2>/dev/null
	same_state "$busy" busy.before "after off"
	ends_well "$busy" busy
	;;
few)
	# With few descriptors there are none for events, and timers do it alone; all are as they were.
	for ((i = 0; i < 30; i++)); do
		start sleeper sleep 1000
		sleepers+=("$pid")
	done
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
	for pid in "${sleepers[@]}"; do
		must_live "$pid" "after off"
		has_agent "$pid" && fail "the agent is left in a sleeper"
	done
	kill -KILL "${sleepers[@]}"
	wait "${sleepers[@]}" 2>/dev/null
	same_state "$busy" busy.before "after off"
	ends_well "$busy" busy
	;;
esac
