#!/usr/bin/env bash
# The area for unwind tables is large, and costs the target nothing: no memory, no locked memory, no
# bytes of a core dump; and where there is no room for it the target is sampled without.
. "$(dirname "$0")/../lib.sh"
need_ptrace

# window OPTIONS...: a window on $target until end_window.
window() {
	start recorder "$KITPROF" record --pid "$target" -d 60 --no-raw --no-flat -o window.folded "$@"
	recorder=$pid
	until_true 20 has_our_timers "$target" || fail "no window: $(cat recorder.log)"
}

end_window() {
	until_true 20 uses_more "$target" "$(cpu_ticks "$target")" 20 || fail "the target does not run"
	kill -INT "$recorder"
	wait "$recorder" || fail "record says $?: $(cat recorder.log)"
}

# of_agent FIELD: its sum in kB, over the mappings of the agent.
of_agent() {
	awk -v field="$1:" '
		/^[0-9a-f]+-[0-9a-f]+ / { ours = /memfd:kitprof/ }
		ours && $1 == field { sum += $2 }
		END { print sum + 0 }' "/proc/$target/smaps"
}

# flags_of_agent: VmFlags of its mappings, a line each.
flags_of_agent() {
	awk '
		/^[0-9a-f]+-[0-9a-f]+ / { ours = /memfd:kitprof/ }
		ours && $1 == "VmFlags:" { print }' "/proc/$target/smaps"
}

# kB of the area for tables, as it is mapped; empty where there is none.
area() {
	awk '
		/^[0-9a-f]+-[0-9a-f]+ / { ours = /r--s .*memfd:kitprof/ }
		ours && $1 == "Size:" { sum += $2 }
		END { if (sum) print sum }' "/proc/$target/smaps"
}

is_left_out_of_dumps() {
	flags_of_agent >flags
	[ "$(grep -c . flags)" -eq "$parts" ] && [ "$(grep -c ' dd ' flags)" -eq "$parts" ]
}

costs_nothing() {
	victim burn burn 1
	target=$pid
	parts=4 # code, ring, directory, shared tables
	proc_state "$target" before
	window
	[ "$(area)" -eq 131072 ] || fail "the area for tables is not as large as it should be: $(area) kB"
	until_true 5 is_left_out_of_dumps || fail "the mapping would be in a core dump: $(cat flags)"
	! grep -q ' ac ' flags || fail "the mapping counts as memory in use: $(cat flags)"
	[ "$(of_agent Rss)" -lt 16384 ] || fail "the mapping has $(of_agent Rss) kB in memory"
	end_window
	same_state "$target" before "after a window"
	window --unwind fp
	[ -z "$(area)" ] || fail "there is an area for tables although none are wanted"
	end_window
	same_state "$target" before "after a window without tables"
	window --unwind slice:64k
	[ "$(of_agent Rss)" -lt 20480 ] || fail "slices: the mapping has $(of_agent Rss) kB in memory"
	end_window
	same_state "$target" before "after a window of slices"
	ends_well "$target" burn
}

# with_limit KB: a victim with so much more address space than it has at its start.
with_limit() {
	start burn "$VICTIMS/burn" 1
	until_true 20 says burn '^ready' || fail "burn does not get ready"
	target=$pid
	local used
	used=$(awk '/^VmSize:/ { print $2 }' "/proc/$target/status")
	prlimit --pid "$target" --as=$(((used + $1) * 1024)) || fail "prlimit"
	proc_state "$target" before
}

is_sampled_with() {
	[ "$(area)" = "$1" ] || fail "the area for tables has '$(area)' kB, not '$1'"
	end_window
	grep -q 'unwind tables' recorder.log || fail "nobody says that the target has no room: $(cat recorder.log)"
	grep -q 'burn' window.folded || fail "the target is not sampled"
	same_state "$target" before "after a window with little room"
	ends_well "$target" burn
}

makes_do_with_less() {
	command -v prlimit >/dev/null || skip "prlimit is not installed"
	with_limit 65536
	window
	is_sampled_with 16384
	with_limit 8192
	window
	is_sampled_with ''
}

# Locked memory is filled with pages when it is mapped.
is_not_locked() {
	start locked "$VICTIMS/locked"
	until_true 20 says locked '^ready' || {
		says locked '^cannot' && skip "no memory can be locked here"
		fail "locked does not get ready"
	}
	target=$pid
	proc_state "$target" before
	window
	[ "$(of_agent Rss)" -lt 16384 ] || fail "locked: $(of_agent Rss) kB in memory"
	end_window
	same_state "$target" before "after a window with locked memory"
	ends_well "$target" locked
}

# Attaching to one program must not fill the memory of another.
stays_empty() {
	[ "$(id -u)" -eq 0 ] || return 0 # map_files
	start runner "$KITPROF" run --no-raw --no-flat -o run.folded -- \
		sh -c 'for i in 1 2 3; do sh -c "sleep 0.2; :"; done; echo ready; exec sleep 1.5'
	runner=$pid
	until_true 20 says runner '^ready' || fail "the program does not get on"
	# It has children of its own besides, and a program gets the agent when it is some moments old.
	for target in $(cat "/proc/$runner/task/$runner/children"); do
		[ "/proc/$target/exe" -ef "/proc/$runner/exe" ] || break
	done
	until_true 1 has_agent "$target"
	range=$(awk '/memfd:kitprof/ { print $1; exit }' "/proc/$target/maps")
	[ -n "$range" ] || fail "the program has no agent"
	blocks=$(stat -Lc %b "/proc/$target/map_files/$range") || fail "stat"
	[ "$blocks" -lt 32768 ] || fail "the mapping has $((blocks / 2)) kB in memory"
	wait "$runner"
}

dump_is_small() {
	[ "$(cat /proc/sys/kernel/core_pattern)" = core ] || return 0
	ulimit -c unlimited
	victim burn burn 1
	ulimit -c 0
	target=$pid
	window
	kill -ABRT "$target"
	wait "$target" 2>/dev/null
	wait "$recorder"
	[ -s core ] || [ -s "core.$target" ] || return 0 # not here
	[ "$(cat core* | wc -c)" -lt 16000000 ] || fail "the core dump has $(cat core* | wc -c) bytes"
	rm -f core*
}

# inode_of_tables PID: of the last part of the agent's mapping, where tables are.
inode_of_tables() {
	awk '/r--s .*memfd:kitprof/ { inode = $5 } END { print inode }' "/proc/$1/maps"
}

has_tables() {
	[ "$(grep -c 'memfd:kitprof' "/proc/$1/maps")" -ge 3 ] && uses_more "$1" 0 5
}

# Programs of one session have one copy of the tables.
is_shared() {
	start runner "$KITPROF" run --no-raw --no-flat -o shared.folded -- \
		sh -c '"$0" 1 & echo "burn $!"; "$0" 1 & echo "burn $!"; wait' "$VICTIMS/burn"
	runner=$pid
	until_true 20 two_burn || fail "the programs do not get the agent: $(cat runner.log)"
	one=$(inode_of_tables "${burns[0]}")
	two=$(inode_of_tables "${burns[1]}")
	kill "${burns[@]}"
	wait "$runner" || fail "run says $?: $(cat runner.log)"
	[ -n "$one" ] && [ "$one" = "$two" ] || fail "two programs have tables of their own: $one, $two"
	grep -q 'main;work' shared.folded || fail "the stacks are not whole: $(cat shared.folded)"
}

# two_burn: burns are the two programs, both with all parts of the agent, and busy.
two_burn() {
	burns=($(awk '/^burn/ { print $2 }' runner.log))
	[ "${#burns[@]}" -eq 2 ] && has_tables "${burns[0]}" && has_tables "${burns[1]}"
}

# Whoever may not look into kitprof has an area of its own, and stacks that are as whole.
has_its_own() {
	[ "$(id -u)" -eq 0 ] || return 0
	start burn setpriv --reuid 65534 --regid 65534 --clear-groups "$VICTIMS/burn" 1
	until_true 20 says burn '^ready' || fail "burn does not get ready"
	target=$pid
	parts=3
	proc_state "$target" before
	window
	[ "$(area)" -eq 131072 ] || fail "the area for tables is not as large as it should be: $(area) kB"
	until_true 5 is_left_out_of_dumps || fail "not $parts parts: $(cat flags)"
	end_window
	grep -q 'main;work' window.folded || fail "the stacks are not whole: $(cat window.folded)"
	same_state "$target" before "after a window with tables of its own"
	ends_well "$target" burn
}

costs_nothing
is_shared
has_its_own
makes_do_with_less
is_not_locked
stays_empty
dump_is_small
