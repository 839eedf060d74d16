#!/usr/bin/env bash
# frozen.sh: a target whose cgroup is frozen (`docker pause`), before, while and after it is sampled,
# goes on as it was when it is thawed.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# Version 2, at its usual places.
for group in /sys/fs/cgroup /sys/fs/cgroup/unified; do
	[ ! -e "$group/cgroup.subtree_control" ] || break
done
group=$group/kitprof-test-$$
[ -e "${group%/*}/cgroup.subtree_control" ] && mkdir "$group" 2>/dev/null ||
	skip "no cgroup of version 2 can be made here"
leave_group() {
	echo 0 >"$group/cgroup.freeze"
	finish_group=$group
	# Its processes are gone by then.
	(for ((i = 0; i < 100; i++)); do
		rmdir "$finish_group" 2>/dev/null && exit
		sleep 0.1
	done) >/dev/null 2>&1 &
}
trap 'status=$?; leave_group; (exit $status); finish' EXIT
[ -e "$group/cgroup.freeze" ] || skip "this kernel has no freezer in cgroups of version 2"

freeze() {
	echo 1 >"$group/cgroup.freeze"
	until_true 10 grep -q 'frozen 1' "$group/cgroup.events" || fail "it does not freeze"
}

thaw() {
	echo 0 >"$group/cgroup.freeze"
}

# new_target: a victim in the group.
new_target() {
	victim burn burn 2
	target=$pid
	echo "$target" >"$group/cgroup.procs"
	proc_state "$target" before
}

# Before: it is refused, and not touched.
new_target
freeze
timeout 20 "$KITPROF" record --pid "$target" -d 1 2>err.log
status=$?
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "a frozen target: status $status: $(cat err.log)"
grep -q 'frozen' err.log || fail "the reason is not said: $(cat err.log)"
thaw
must_work "$target" "after it was frozen"
same_state "$target" before "after it was frozen"
"$KITPROF" record --pid "$target" -d 0.3 -q || fail "it cannot be sampled after it was thawed"
same_state "$target" before "after a window"

# In the window, and at its end: the agent cannot be taken out, and stays without doing anything.
for moment in middle end; do
	start record "$KITPROF" record --pid "$target" -d 2 -r 999
	recorder=$pid
	until_true 20 has_agent "$target" || fail "no window: $(cat record.log)"
	sleep 0.5
	freeze
	if [ "$moment" = middle ]; then
		sleep 0.7
		thaw
	fi
	until_true 60 has_ended "$recorder" || fail "record does not end"
	thaw
	must_work "$target" "after it was frozen in the $moment"
	"$KITPROF" cleanup "$target" 2>/dev/null
	same_state "$target" before "after it was frozen in the $moment"
done

# At any moment of an attachment or its end.
for ((i = 0; i < 12; i++)); do
	start record "$KITPROF" record --pid "$target" -d 0.01 -r 999 --no-raw --no-folded --no-flat -q
	recorder=$pid
	sleep "0.0$((RANDOM % 90 + 10))"
	freeze
	sleep 0.1
	[ $((i % 4)) -ne 0 ] || sleep 2.5
	thaw
	until_true 60 has_ended "$recorder" || fail "record does not end"
	must_work "$target" "after moment $i"
	"$KITPROF" cleanup "$target" 2>/dev/null
done
same_state "$target" before "after all moments"
ends_well "$target" burn
