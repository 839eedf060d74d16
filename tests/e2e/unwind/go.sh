#!/bin/bash
# go.sh PROGRAM: stacks of a Go program are whole where its runtime works on the stack of the thread,
# and none is put together of two goroutines' or of a goroutine's and the scheduler's.
. "$(dirname "$0")/unwind.sh"

# Without those that the kernel takes of what was just born: they have the thread's stack alone.
samples() {
	"$RAWDUMP" "$1" | awk '
		$1 == "sample" && !/ source=5 / {
			all++
			found += / walk_end=(1|2|9) /
		}
		END { print all + 0, found + 0 }'
}

# Threads that wait as well, and are looked at from outside.
need_ptrace
start stacks "$VICTIMS/$1" 1000
until_true 20 uses_more "$pid" 20 || fail "$1 does nothing"
"$KITPROF" record -q --pid "$pid" --clock wall -r 99 -d 6 2>err.log || fail "record: $(cat err.log)"
end_quietly "$pid"
are_whole prof.kitprof 99

profile "$VICTIMS/$1" 3
are_whole prof.kitprof 99

# Each has its own root, and the way to it: by the runtime on the thread's stack as well.
for name in allocates sorts counts talks listens waits digs; do
	grep -q "^[^;]*;runtime\.goexit;\(main\.main\.func[0-9.]*;\|main\.sends\.func[0-9.]*;\)*main\.$name[; ]" prof.folded ||
		fail "no stack of main.$name: $(head -n 5 prof.folded)"
done
grep -q ';main\.allocates;.*;runtime\.systemstack;' prof.folded || fail "nothing goes through systemstack"

awk '
	BEGIN {
		split("allocates sorts counts talks listens waits digs sends", name)
		split("runtime.goexit runtime.mcall runtime.mstart runtime.rt0_go runtime.gopreempt_m runtime.preemptPark", root)
		for (i in name)
			begins["main." name[i]] = 1
		for (i in root)
			is_root[root[i]] = 1
	}
	/\[truncated\]/ { next }
	{
		weight = $NF
		all += weight
		sub(/ [0-9]+$/, "")
		frames = split($0, frame, ";")
		found = 0
		bad = ""
		for (at = 2; at <= frames; at++) {
			found += frame[at] in begins
			if (at > 2 && at < frames && frame[at] in is_root && frame[at] ~ /goexit|mcall|mstart/)
				bad = "goes through " frame[at]
		}
		if (!(frame[2] in is_root))
			other += weight
		if (found > 1)
			bad = "is of two goroutines"
		if (found && frame[2] != "runtime.goexit")
			bad = "is not begun by goexit"
		if (bad != "") {
			print bad ": " $0
			wrong += weight
		}
	}
	END {
		printf "%d of %d are wrong, %d have another root\n", wrong, all, other
		exit !(all && wrong * 1000 <= all && other * 200 <= all)
	}' prof.folded >verdict.txt || fail "$(tail -n 5 verdict.txt)"
tail -n 1 verdict.txt
