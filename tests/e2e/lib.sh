# What the end-to-end tests have in common. Sourced by bash scripts that meson runs with
#	KITPROF, KITPROFD	the programs under test
#	VICTIMS			directory of the victims (victim/*.c), built
#
# Whatever the end of a test, its processes and files are gone afterwards. Only processes started
# here are touched. Loopback and unix sockets only.

set -u
export LC_ALL=C

work=$(mktemp -d "${TMPDIR:-/tmp}/kitprof-e2e.XXXXXX")
# Nothing is left in the user's cache, and nothing comes from there.
export XDG_CACHE_HOME=$work/.cache
started=()
litter=() # files elsewhere that programs leave behind

finish() {
	local status=$? pid
	trap - EXIT
	# First those that have something to tidy up themselves.
	for pid in "${started[@]}"; do
		kill -CONT "$pid" 2>/dev/null && kill -TERM "$pid" 2>/dev/null && sleep 0.1
	done
	for pid in "${started[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
		tail -n 20 "$work"/*.log >&2 2>/dev/null
	fi
	rm -rf "$work" "${litter[@]}"
	exit "$status"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
cd "$work" || exit 1

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# No privilege, no tool: that is no pass.
skip() {
	echo "skipped: $*"
	exit 77
}

# start NAME COMMAND...: runs it in the background; its pid is in $pid, its output in NAME.log.
start() {
	local name=$1
	shift
	: >"$work/$name.log"
	"$@" >"$work/$name.log" 2>&1 &
	pid=$!
	started+=("$pid")
}

end_quietly() {
	kill -KILL "$1"
	wait "$1" 2>/dev/null
}

# until_true SECONDS COMMAND...: repeats it until it succeeds.
until_true() {
	local tries=$(($1 * 50))
	shift
	while ! "$@"; do
		[ $((tries -= 1)) -gt 0 ] || return 1
		sleep 0.02
	done
}

says() {
	grep -q -e "$2" "$work/$1.log"
}

# victim NAME COMMAND...: start, and wait until it says that it is ready.
victim() {
	local name=$1
	shift
	start "$name" "$VICTIMS/$@"
	until_true 20 says "$name" '^ready' || fail "$name does not get ready: $(cat "$work/$name.log")"
}

is_alive() {
	local state
	state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
	[ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}

has_ended() {
	! is_alive "$1"
}

# must_live PID WHEN: the target is there and nobody traces or stopped it.
must_live() {
	is_alive "$1" || fail "the target died $2"
	grep -q '^TracerPid:[[:space:]]0$' "/proc/$1/status" || fail "the target is traced $2"
}

state_of() {
	sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null
}

in_state() {
	local state
	state=$(state_of "$1")
	[ "${state:-gone}" = "$2" ]
}

# CPU time of a process in clock ticks: fields 14 and 15, counted behind the name.
cpu_ticks() {
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -r -a fields <<<"${stat##*) }"
	echo $((fields[11] + fields[12]))
}

# ends_well PID NAME: the victim's own verdict, after SIGTERM.
ends_well() {
	local status
	kill -TERM "$1"
	until_true 20 has_ended "$1" || fail "$2 does not end: state $(state_of "$1")"
	wait "$1"
	status=$?
	[ "$status" -eq 0 ] || fail "$2 ends with $status: $(grep -v -e '^ready' -e '^made' "$work/$2.log")"
}

# must_work PID WHEN: it gets on with what it does.
must_work() {
	local before
	must_live "$1" "$2"
	before=$(cpu_ticks "$1")
	until_true 20 uses_more "$1" "$before" || fail "the target does not run $2"
}

uses_more() {
	[ "$(cpu_ticks "$1")" -gt $(($2 + ${3:-1})) ]
}

# proc_state PID FILE: all that an attachment could leave behind. Heap and stack grow by themselves.
proc_state() {
	local pid=$1 entry
	{
		grep -v -e '\[heap\]' -e '\[stack\]' "/proc/$pid/maps"
		for entry in /proc/"$pid"/fd/*; do
			echo "fd ${entry##*/} $(readlink "$entry")"
		done
		echo "timers:"
		cat "/proc/$pid/timers"
		for entry in /proc/"$pid"/task/*; do
			echo "thread ${entry##*/}"
			grep -e '^SigPnd' -e '^ShdPnd' -e '^SigBlk' -e '^SigIgn' -e '^SigCgt' -e '^TracerPid' \
				-e '^Seccomp' "$entry/status"
		done
		cat "/proc/$pid/limits"
	} >"$2"
}

# same_state PID FILE WHEN: against what proc_state wrote before.
same_state() {
	proc_state "$1" "$2.now"
	cmp -s "$2" "$2.now" || {
		diff -u "$2" "$2.now" >&2
		fail "the target is not as it was $3"
	}
}

has_agent() {
	grep -q '/memfd:kitprof' "/proc/$1/maps" 2>/dev/null
}

# Timers of ours carry a cookie in the upper half of their value.
has_our_timers() {
	grep -q '^signal: [0-9]*/[0x]*6b70a5e7' "/proc/$1/timers" 2>/dev/null
}

has_no_timers_of_ours() {
	! has_our_timers "$1"
}

# cycle PID SECONDS RATE OPTIONS...: one attach and detach without output; returns its status.
cycle() {
	local pid=$1 seconds=$2 rate=$3
	shift 3
	"$KITPROF" record --pid "$pid" -d "$seconds" -r "$rate" --no-raw --no-folded --no-flat -q "$@" \
		2>>"$work/cycle.log"
}

# cycles N PID SECONDS RATE OPTIONS...: N of them; a sample now and then is not asked for (3).
cycles() {
	local n=$1 i status
	shift
	for ((i = 0; i < n; i++)); do
		cycle "$@"
		status=$?
		[ "$status" -eq 0 ] || [ "$status" -eq 3 ] ||
			fail "cycle $i of $n: kitprof says $status: $(tail -n 1 "$work/cycle.log")"
	done
}

# Whether this user may attach to a process at all.
need_ptrace() {
	local status
	start probe sleep 60
	until_true 10 in_state "$pid" S
	"$KITPROF" record --pid "$pid" -d 0.02 --no-raw --no-folded --no-flat -q 2>probe.err
	status=$?
	end_quietly "$pid"
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || skip "cannot attach here: $(cat probe.err)"
}

need_perf() {
	local status
	start probe sleep 60
	until_true 10 in_state "$pid" S
	"$KITPROF" record --pid "$pid" -d 0.02 --clock task --no-raw --no-folded --no-flat -q 2>probe.err
	status=$?
	end_quietly "$pid"
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || skip "no perf events here: $(cat probe.err)"
}

need_tool() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}
