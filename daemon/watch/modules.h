/*
 * The executable mappings of a target: written to the raw profile when first seen, their files
 * pinned. By reading /proc/PID/maps; runs in the session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/pin.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_known_module {
	uint64_t start, end, offset, inode, dev;
};

struct kp_modules {
	pid_t pid;
	pid_t live; /* a thread of it that has memory, as of the last scan */
	struct kp_raw_writer *writer;
	struct kp_pins *pins;
	struct kp_known_module *module; /* of the last scan that worked, ascending */
	size_t count;
	uint64_t skip_base, skip_end; /* the agent's own mapping: not the target's */
};

void kp_modules_init(struct kp_modules *modules, pid_t pid, struct kp_raw_writer *writer,
		     struct kp_pins *pins);
void kp_modules_deinit(struct kp_modules *modules);

/*
 * Reads the map and writes a MODULE record (and an IMAGE for the vdso) for what is new. A target
 * that is gone changes nothing. *ret_new: how many were new; may be NULL.
 */
int kp_modules_scan(struct kp_modules *modules, size_t *ret_new, struct kp_err *err);

/* Whether the address is in a module of the last scan. */
bool kp_modules_contain(const struct kp_modules *modules, uint64_t pc);
