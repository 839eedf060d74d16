/*
 * The perf map of a process: a file that JIT compilers write (V8 --perf-basic-prof, agents for the
 * JVM, and others), which says what they have compiled to where. /tmp/perf-PID.map as the process
 * itself sees /tmp and its pid; a line is "START SIZE NAME", numbers in hex, and a later one holds
 * where two overlap (Linux, tools/perf/Documentation/jit-interface.txt).
 *
 * Addresses that were sampled are gathered while the process runs; what they are is read when it has
 * ended, or the window has, and written to the raw profile. Session loop.
 */
#pragma once

#include "common/err.h"
#include "proto/rawfile.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define KP_PERF_MAP_PLACES_MAX 65536u /* different addresses; what comes beyond has no name */

/* All zero is an empty one of no process. */
struct kp_perf_map {
	pid_t pid, ns_pid; /* the latter in its own pid namespace */
	FILE *file; /* opened when it is first needed; NULL: not there so far */
	uint64_t *place; /* a set: open addressing, 0 is free */
	uint32_t count, room; /* room: a power of two, or 0 */
};

void kp_perf_map_init(struct kp_perf_map *map, pid_t pid, pid_t ns_pid);
void kp_perf_map_deinit(struct kp_perf_map *map);

/* An address in memory without a file was sampled. 0 or -KP_ENOMEM. */
int kp_perf_map_note(struct kp_perf_map *map, uint64_t address, struct kp_err *err);

/*
 * Writes a SYMBOL for each function that has one of the addresses. A file that is missing, is not
 * of the process's owner or makes no sense is no error: it names less.
 */
int kp_perf_map_put(struct kp_perf_map *map, struct kp_raw_writer *writer, struct kp_err *err);
