/*
 * The perf map of a process: a file that JIT compilers write (V8 --perf-basic-prof, agents for the
 * JVM, and others), which says what they have compiled to where. /tmp/perf-PID.map as the process
 * itself sees /tmp and its pid; a line is "START SIZE NAME", numbers in hex, and a later one holds
 * where two overlap (Linux, tools/perf/Documentation/jit-interface.txt).
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/compiled_fn.h"

#include <stdio.h>
#include <sys/types.h>

/* NULL: there is none, or it is neither the process's owner's nor ours. ns_pid: in its own namespace. */
FILE *kp_perf_map_open(pid_t pid, pid_t ns_pid);

/* From the start to the end. Lines that make no sense are passed over. What fn says, or -KP_ENOMEM. */
int kp_perf_map_read(FILE *map, kp_compiled_fn fn, void *ctx, struct kp_err *err);
