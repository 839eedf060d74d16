/* The vdso of a target: where a system call instruction stands that we may use. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_vdso {
	uint64_t base;
	uint64_t syscall; /* address of a system call instruction in it */
};

/*
 * Reads the vdso's image. -KP_EBUSY where there is none: in the middle of an exec there is none yet.
 */
int kp_vdso_find(pid_t pid, pid_t tid, struct kp_vdso *ret, struct kp_err *err);

/*
 * Whether the vdso is still there: an exec puts it elsewhere. A look into the auxiliary vector, cheap
 * enough for while a thread stands still.
 */
bool kp_vdso_is_current(pid_t pid, pid_t tid, const struct kp_vdso *vdso);
