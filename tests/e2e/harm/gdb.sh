#!/usr/bin/env bash
# While samples are taken nobody traces the target: a debugger can. One that stays until the window
# ends keeps kitprof from cleaning up, which it says, and which cleanup makes good.
. "$(dirname "$0")/../lib.sh"
need_ptrace
need_tool gdb

is_traced() {
	! grep -q '^TracerPid:[[:space:]]0$' "/proc/$1/status"
}

victim burn burn 2
target=$pid
proc_state "$target" before

start record "$KITPROF" record --pid "$target" -d 6 -r 999 --no-raw --no-flat -o gdb.folded
recorder=$pid
until_true 5 has_our_timers "$target" || fail "no window: $(cat record.log)"
for ((i = 0; i < 50; i++)); do
	is_traced "$target" && fail "the target is traced while samples are taken"
	sleep 0.01
done
timeout 30 gdb -nx -batch -p "$target" -ex 'thread apply all backtrace 2' -ex detach >gdb.log 2>&1 ||
	fail "gdb cannot attach in a window"
grep -q 'work' gdb.log || fail "gdb shows no stack"
must_work "$target" "after gdb"
wait "$recorder" || fail "record says $?: $(cat record.log)"
[ -s gdb.folded ] || fail "no samples beside gdb"
same_state "$target" before "after a window with gdb in it"

# gdb has it when the window ends.
start record "$KITPROF" record --pid "$target" -d 8 -r 999 --no-raw --no-flat -o gdb.folded
recorder=$pid
until_true 5 has_our_timers "$target" || fail "no second window: $(cat record.log)"
mkfifo commands
exec 7<>commands
start gdb sh -c 'exec timeout 60 gdb -nx -quiet -p "$0" <commands 7<&-' "$target"
debugger=$pid
until_true 10 is_traced "$target" || fail "gdb does not attach: $(cat gdb.log)"
wait "$recorder" || fail "record says $? when gdb holds its target: $(cat record.log)"
[ -s gdb.folded ] || fail "the samples are lost"
grep -q -e cleanup record.log || fail "no word about what is left, and how to remove it: $(cat record.log)"
"$KITPROF" cleanup "$target" 2>err && fail "cleanup beside a debugger says it is done"
grep -q gdb err || fail "cleanup does not name the debugger: $(cat err)"
printf 'detach\nquit\n' >&7
exec 7>&-
wait "$debugger"
must_work "$target" "after gdb left"
until_true 10 has_no_timers_of_ours "$target" || fail "the clocks go on after the window"
"$KITPROF" cleanup -q "$target" 2>err || fail "cleanup says $?: $(cat err)"
same_state "$target" before "after cleanup"
ends_well "$target" burn
