/*
 * Private to session/: the store of unwind tables, and the tables that are made before sampling
 * begins, so that the first sample can be whole. Session loop, before the window.
 */
#pragma once

#include "common/err.h"
#include "daemon/unwind/store.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KP_PREPARE_MS 1000 /* that an attach or a start waits for tables at most */

/*
 * A store with the cache of this user. ret_why: "" or why nothing is kept on disk, size bytes at
 * most.
 */
int kp_prepare_store(uint16_t machine, struct kp_store **ret, char *ret_why, size_t size,
		     struct kp_err *err);

/* What pid has mapped. The process is only looked at. store may be NULL, here and below. */
void kp_prepare_process(struct kp_store *store, pid_t pid);

/*
 * A program that will be started, with its interpreter or dynamic linker: a path, or a name to be
 * found in PATH.
 */
void kp_prepare_program(struct kp_store *store, const char *name);
