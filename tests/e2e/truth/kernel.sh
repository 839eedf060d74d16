#!/bin/bash
# kernel.sh getppid|read: time in system calls is in the profile, once, as much as there was.
. "$(dirname "$0")/truth.sh"

run_says 0 "$KITPROF" run -- "$VICTIMS/syscalls" "$1"
account prof.kitprof 95 105

# 30 % is the victim's own computing; the rest are calls, their entry and exit.
awk '{ all += $NF } /;compute/ { compute += $NF } END { printf "%.1f\n", 100 * compute / all }' \
	prof.folded >compute
awk '{ exit !($1 > 26 && $1 < 34) }' compute || fail "compute() has $(cat compute) %, not 30 %"

# With both clocks at work the timer's samples are those in system calls. Calls as short as getppid
# are left out: their way out, with interrupts off, is user time to getrusage.
[ "$1" = read ] || exit 0
grep -q 'cpu-timer + task-clock' err.log || skip "no task-clock events here (perf_event_paranoid)"
"$RAWDUMP" prof.kitprof | awk '
	$1 == "sample" { split($4, weight, "="); all += weight[2]; if ($5 == "source=1") calls += weight[2] }
	END { printf "%.1f\n", 100 * calls / all }' >calls
awk '{ printf "%.1f\n", 100 * $2 / ($1 + $2) }' out >truth
at_least "share of system calls by getrusage" "$(cat truth)" 50
paste -d ' ' calls truth | awk '{ off = $1 - $2; exit !(off <= 5 && off >= -5) }' ||
	fail "system calls are $(cat calls) % in the profile, $(cat truth) % by getrusage"
