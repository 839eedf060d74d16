#!/bin/bash
# The tables of a process that is attached to are there before its first sample, also when they must
# be built first; and the figures of the profile tell it.
. "$(dirname "$0")/unwind.sh"
need_ptrace

victim places places sort 0
"$KITPROF" record --pid "$pid" -d 60 --cap 400 -r 999 -q 2>err.log || fail "record ends with $?: $(cat err.log)"
are_whole prof.kitprof 99
read -r modules tables <<<"$("$RAWDUMP" prof.kitprof |
	sed -n 's/^end.* modules=\([0-9]*\) modules_with_table=\([0-9]*\).*/\1 \2/p')"
# The program, libc, ld.so, the vdso; there may be more.
[ "${modules:-0}" -ge 4 ] && [ "$tables" -ge 4 ] && [ "$tables" -le "$modules" ] ||
	fail "tables of $tables of $modules modules"
first=$("$RAWDUMP" prof.kitprof | grep -m 1 '^sample')
[[ $first =~ walk_end=(1|2|9)' ' ]] || fail "the first sample is not whole: $first"

[ "$(stat -c %a "$XDG_CACHE_HOME/kitprof/unwind")" = 700 ] || fail "the cache is not the owner's alone"
[ "$(ls "$XDG_CACHE_HOME/kitprof/unwind" | wc -l)" -ge 3 ] || fail "nothing was kept on disk"

# Damaged on disk: made again.
for table in "$XDG_CACHE_HOME"/kitprof/unwind/*; do
	truncate -s -1 "$table"
done
"$KITPROF" record --pid "$pid" -d 60 --cap 400 -r 999 -q 2>err.log || fail "record ends with $?: $(cat err.log)"
are_whole prof.kitprof 99

# No place on disk: works all the same, and is said where more is asked for.
XDG_CACHE_HOME=/proc/nowhere "$KITPROF" record --pid "$pid" -d 60 --cap 400 -r 999 -v 2>err.log ||
	fail "record ends with $?: $(cat err.log)"
grep -q 'not kept on disk' err.log || fail "nobody says that there is no cache: $(cat err.log)"
are_whole prof.kitprof 99
must_live "$pid" "after all that"
