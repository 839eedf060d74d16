#!/usr/bin/env bash
# Targets that confine themselves. What a filter would punish is refused, and the target lives.
. "$(dirname "$0")/../lib.sh"
need_ptrace
[ "$(id -u)" -eq 0 ] || skip "filters can be read by root only"

# works KIND RATE: attaching, a window, detaching.
works() {
	victim "$1" sandbox "$1"
	if [ "$1" != late ]; then
		proc_state "$pid" before
		cycles 5 "$pid" 0.03 "$2"
		same_state "$pid" before "under the filter $1"
	fi
	"$KITPROF" record --pid "$pid" -d 1.5 -r "$2" --no-raw --no-flat -q -o "$1.folded" 2>err ||
		fail "$1: record says $?: $(cat err)"
	grep -q victim_spin "$1.folded" || fail "$1: not in the profile: $(cat "$1.folded")"
	must_work "$pid" "after sampling under the filter $1"
	ends_well "$pid" "$1"
}

# refused KIND WORD: with the reason, and nothing is touched.
refused() {
	local status
	victim "$1" sandbox "$1"
	proc_state "$pid" before
	for clock in timer auto; do
		"$KITPROF" record --pid "$pid" -d 0.5 -r 999 --clock "$clock" --no-raw --no-folded --no-flat -q 2>err
		status=$?
		[ "$status" -eq 1 ] || fail "$1: record says $status, not 1: $(cat err)"
		grep -q -e "$2" err || fail "$1: the reason does not name $2: $(cat err)"
		same_state "$pid" before "after a refusal of $1"
	done
	must_work "$pid" "after a refusal of $1"
}

works memfd 99
works memfd 999
works mask 99
works mask 999
works late 999
refused timer timer_create
refused allow rt_sigreturn
refused trap getpid
refused thread rt_sigreturn
refused same rt_sigreturn
refused strict strict
