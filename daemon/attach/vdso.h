/* The vdso of a target: where a system call instruction stands that we may use. */
#pragma once

#include "common/err.h"

#include <stdint.h>
#include <sys/types.h>

/* Address of a system call instruction in the vdso. */
int kp_vdso_syscall(pid_t pid, pid_t tid, uint64_t *ret, struct kp_err *err);
