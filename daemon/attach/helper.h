/*
 * Work on a stopped thread happens in a short-lived process of its own with all signals blocked:
 * no Ctrl-C, crash or slow moment of the daemon can leave the target half changed. When the helper
 * ends, however it ends, the kernel lets go of all that it traced.
 */
#pragma once

#include "common/err.h"

#include <stddef.h>

/*
 * Runs in the helper. memory: shared with the caller, changes are seen there. *ret_fd (-1 at
 * first): a descriptor to hand to the caller.
 */
typedef int (*kp_helper_fn)(void *memory, int *ret_fd, struct kp_err *err);

/*
 * Forks, runs fn(memory), returns what it returned with its error. memory: from
 * kp_helper_memory(). ret_fd may be NULL. The calling process must be single-threaded. Every wait
 * inside fn has a deadline, so there is none here: killing a helper is what must not happen.
 */
int kp_helper_run(kp_helper_fn fn, void *memory, int *ret_fd, struct kp_err *err);

/* Zeroed memory that a helper shares with its parent. NULL when out of memory. */
void *kp_helper_memory(size_t size);
void kp_helper_memory_free(void *memory, size_t size);
