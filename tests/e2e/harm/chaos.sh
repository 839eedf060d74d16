#!/usr/bin/env bash
# chaos.sh windows|stops [SEED]: windows at random moments, of random lengths and rates, on programs
# that do what they like meanwhile. In the end all live that were not killed here, without a trace,
# and each profile's account is whole. With the seed that a run prints, the next one draws the same
# numbers; what the programs do at that moment may differ.
. "$(dirname "$0")/../lib.sh"
need_ptrace
case=$1
seed=${2:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
echo "seed $seed"
# From here on failures name it.
fail() {
	echo "FAILED (chaos.sh $case $seed): $*" >&2
	exit 1
}

rates=(49 99 499 999 1999 4000)
clocks=(auto auto timer)
names=()
declare -A target recorder stopped killed windows

# play NAME COMMAND...: one of the victims.
play() {
	victim "$@"
	names+=("$1")
	target[$1]=$pid
	stopped[$1]=no
	windows[$1]=0
}

toggle() {
	if [ "${stopped[$1]}" = yes ]; then
		kill -CONT "${target[$1]}"
		stopped[$1]=no
	else
		kill -STOP "${target[$1]}"
		stopped[$1]=yes
	fi
}

# begin NAME: a window on it.
begin() {
	local name=$1
	windows[$name]=$((windows[$name] + 1))
	start "record.$name" "$KITPROF" record --pid "${target[$name]}" -d "0.$(printf %03d $((RANDOM % 500 + 10)))" \
		-r "${rates[RANDOM % ${#rates[@]}]}" --clock "${clocks[RANDOM % ${#clocks[@]}]}" \
		--no-folded --no-flat -o "$name.${windows[$name]}.folded"
	recorder[$name]=$pid
}

# What a target that ends, stands or is another program just then may be refused for.
excuse='no such process|has ended|is ending|is gone|ended before|cannot be stopped now|does not stop|does not come to run|zombie|exit'

# over NAME: its window has ended; how?
over() {
	local name=$1 status=0
	wait "${recorder[$name]}" || status=$?
	unset "recorder[$name]"
	if [ "$status" -eq 1 ] && grep -Eq "$excuse" "$work/record.$name.log"; then
		status=3
	fi
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] ||
		fail "record of $name says $status: $(tail -n 3 "$work/record.$name.log")"
}

check_accounts() {
	local raw
	for raw in *.kitprof; do
		[ ! -s "$raw" ] || "$KITPROF" report --stats --json "$raw" >"$raw.json" || fail "$raw cannot be read"
	done
	python3 -c '
import json, sys
for name in sys.argv[1:]:
    s = json.load(open(name))
    assert s["samples_taken"] == s["samples_kept"] + s["samples_dropped"], name' *.json ||
		fail "an account is not whole"
}

# A nap of so many ms, without a process.
mkfifo never
exec {never}<>never
nap() {
	read -r -t "0.$(printf %03d "$1")" -u "$never"
}

serve_windows() {
	local name
	for name in "${names[@]}"; do
		if [ -z "${recorder[$name]-}" ]; then
			[ $((RANDOM % 3)) -ne 0 ] || begin "$name"
		elif has_ended "${recorder[$name]}"; then
			over "$name"
		elif [ $((RANDOM % 20)) -eq 0 ]; then
			kill -INT "${recorder[$name]}"
		fi
	done
}

# A victim dies at any moment, another one takes its place.
die() {
	local name=mortal
	kill -KILL "${target[$name]}"
	wait "${target[$name]}" 2>/dev/null
	start "$name" "$VICTIMS/burn" 2 yield
	target[$name]=$pid
	stopped[$name]=no
}

family() {
	local child
	echo "$1"
	for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
		family "$child"
	done
}

must_be_traceless() {
	local name=$1 member
	must_live "${target[$name]}" "at the end ($name)"
	for member in $(family "${target[$name]}"); do
		has_agent "$member" && fail "the agent is left in $name ($member)"
		has_our_timers "$member" && fail "timers are left in $name ($member)"
		readlink /proc/"$member"/fd/* 2>/dev/null | grep -q memfd:kitprof && fail "a descriptor is left in $name"
	done
	[ ! -e "$name.before" ] || same_state "${target[$name]}" "$name.before" "at the end ($name)"
}

windows() {
	play burn burn 1
	proc_state "$pid" burn.before
	play forks forks 2
	play execs execs fork 0
	play threads churn threads
	play vforks execs vfork 0
	play mortal burn 2 yield
	while [ "$SECONDS" -lt 12 ]; do
		serve_windows
		[ $((RANDOM % 4)) -ne 0 ] || toggle "${names[RANDOM % ${#names[@]}]}"
		[ $((RANDOM % 8)) -ne 0 ] || die
		nap $((RANDOM % 60 + 10))
	done
}

stops() {
	play burn burn 2 yield
	proc_state "$pid" burn.before
	play threads churn threads
	play forks forks 2
	while [ "$SECONDS" -lt 12 ]; do
		serve_windows
		for ((i = 0; i < 6; i++)); do
			toggle "${names[RANDOM % ${#names[@]}]}"
			nap $((RANDOM % 9 + 1))
		done
	done
}

SECONDS=0
"$case"
for name in "${names[@]}"; do
	[ "${stopped[$name]}" = no ] || toggle "$name"
done
for name in "${names[@]}"; do
	[ -z "${recorder[$name]-}" ] || until_true 30 has_ended "${recorder[$name]}" || fail "the window of $name does not end"
	[ -z "${recorder[$name]-}" ] || over "$name"
done
for name in "${names[@]}"; do
	must_be_traceless "$name"
done
no_kitprof() {
	! pgrep -g 0 -x kitprof >/dev/null
}
until_true 5 no_kitprof || fail "a process of kitprof is left"
for name in "${names[@]}"; do
	ends_well "${target[$name]}" "$name"
done
check_accounts
echo "windows: $(for name in "${names[@]}"; do echo -n "$name ${windows[$name]} "; done)"
