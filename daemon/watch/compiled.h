/*
 * Names of the code that a process has compiled for itself, as its JIT compilers tell them: in a perf
 * map (perf_map.h), in a jitdump (jitdump.h), or in both; then the jitdump holds.
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

#define KP_COMPILED_PLACES_MAX 65536u /* different addresses; what comes beyond has no name */

/* All zero is an empty one of no process. */
struct kp_compiled {
	pid_t pid, ns_pid; /* the latter in its own pid namespace */
	FILE *map; /* opened when it is first needed; NULL: not there so far */
	FILE *dump; /* NULL: none was seen */
	uint64_t *place; /* a set: open addressing, 0 is free */
	uint32_t count, room; /* room: a power of two, or 0 */
};

void kp_compiled_init(struct kp_compiled *compiled, pid_t pid, pid_t ns_pid);
void kp_compiled_deinit(struct kp_compiled *compiled);

/* An address in memory without a file was sampled. 0 or -KP_ENOMEM. */
int kp_compiled_note(struct kp_compiled *compiled, uint64_t address, struct kp_err *err);

/* The process has mapped a jitdump: kp_jitdump_is_name(). Takes fd over, in place of one before. */
void kp_compiled_take_dump(struct kp_compiled *compiled, int fd);

/*
 * Writes a SYMBOL for each function that has one of the addresses. A file that is missing, is not
 * of the process's owner or makes no sense is no error: it names less.
 */
int kp_compiled_put(struct kp_compiled *compiled, struct kp_raw_writer *writer, struct kp_err *err);
