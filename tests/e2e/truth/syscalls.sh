#!/usr/bin/env bash
# With --syscalls the system call that a thread is in is a frame, and no frame more otherwise.
. "$(dirname "$0")/truth.sh"
need_tool dd

run_says 0 "$KITPROF" run --syscalls -- dd if=/dev/zero of=/dev/null bs=1M count=20000 status=none
has prof.folded '^dd;.*[^;]*read[^;]*;\[syscall:read\] [0-9]+$'
at_least "share of read" "$(self prof.folded '[syscall:read]')" 50
has prof.flat '\[syscall:read\]$'
run_says 0 "$KITPROF" report prof.kitprof
has_not prof.folded '\[syscall'
run_says 0 "$KITPROF" report --syscalls prof.kitprof
has prof.folded '\[syscall:read\] [0-9]+$'
has_not prof.folded '\[syscall[^ ]*;' # leaves only

# Threads that wait: by what they wait in.
run_says 0 "$KITPROF" run --clock wall --syscalls -- sleep 1
has prof.folded '^sleep;.*\[syscall:clock_nanosleep\] [0-9]+$'
