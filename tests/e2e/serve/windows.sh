#!/usr/bin/env bash
# windows.sh CASE: kitprofd --pid --window: one after another, the newest are kept.
. "$(dirname "$0")/serve.sh"
need_ptrace
mkdir results

windows() {
	start windows "$KITPROFD" --pid "$target" --window 1s --dir results -v "$@"
	windows=$pid
}

ends_with() {
	local status
	until_true 30 has_ended "$windows" || fail "it does not end: $(cat windows.log)"
	wait "$windows"
	status=$?
	equal "exit status" "$status" "$1"
}

count() {
	ls results | grep -c "$1"
}

has_windows() {
	[ "$(grep -c '^kitprofd: wrote' windows.log)" -ge "$1" ]
}

each_has_samples() {
	local file
	for file in results/*.folded; do
		grep -q work "$file" || fail "$file has no samples of the program"
	done
}

victim burn burn 2
target=$pid
proc_state "$target" before
case $1 in
keep)
	# What only looks like one of its files is not its own.
	echo precious >results/burn-20000101T000000Z.kitprof
	windows -r 999 -f pprof --keep 2
	until_true 60 has_windows 5 || fail "no windows: $(cat windows.log)"
	sleep 0.5 # so that there is something in the last one
	[ "$(count 'burn-2.*kitprof')" -le 6 ] || fail "too much is kept: $(ls results)"
	kill -TERM "$windows"
	ends_with 0
	equal "a file that is not its own" "$(cat results/burn-20000101T000000Z.kitprof)" precious
	rm results/burn-20000101T000000Z.kitprof
	for kind in kitprof folded flat pb.gz; do
		equal "kept files .$kind" "$(count "^burn-[0-9TZ-]*\.$kind$")" 2
	done
	equal "files" "$(count .)" 8
	each_has_samples
	says windows 'ms since the window before' || fail "the gap is not said: $(cat windows.log)"
	same_state "$target" before "after windows"
	;;
ends)
	# All are kept; the last one is cut short by -d, by a signal, by the target's end.
	windows -r 999 -d 2800ms -o svc.folded --no-flat
	ends_with 0
	equal "windows" "$(count '^svc-.*\.kitprof$')" 3
	equal "folded" "$(count '^svc-.*\.folded$')" 3
	equal "files" "$(count .)" 6
	each_has_samples
	same_state "$target" before "after -d"
	rm results/*

	windows -r 999 --cap 20 --no-raw
	until_true 20 has_windows 2 || fail "no windows: $(cat windows.log)"
	kill -INT "$windows"
	ends_with 0
	[ "$(count folded)" -ge 2 ] && [ "$(count folded)" -le 4 ] || fail "capped windows: $(ls results)"
	same_state "$target" before "after SIGINT"
	rm results/*

	windows -r 999
	until_true 20 has_windows 1 || fail "no windows: $(cat windows.log)"
	must_work "$target" "between windows"
	until_true 20 has_agent "$target" || fail "no second window"
	sleep 0.3
	kill -KILL "$target"
	ends_with 0
	equal "folded profiles for as many raw ones" "$(count kitprof)" "$(count folded)"
	[ "$(count folded)" -ge 2 ] || fail "the last window is lost: $(ls results)"
	exit 0
	;;
esac
must_work "$target" "at the end"
ends_well "$target" burn
