/*
 * System calls without libc: one file a CPU, the same function in each. They return what the
 * kernel returns, -errno for a failure, and touch no errno.
 *
 * Runs in the target's signal handler.
 */
#pragma once

#include <asm/unistd.h>

#if defined(__x86_64__) && !defined(__ILP32__)
#include "agent/syscall_x86_64.h"
#elif defined(__aarch64__)
#include "agent/syscall_aarch64.h"
#elif defined(__riscv) && __riscv_xlen == 64
#include "agent/syscall_riscv64.h"
#else
#error "no agent for this CPU; docs/porting.md"
#endif

/* The argument of a system call that is a pointer. */
static inline long kp_syscall_ptr(const volatile void *p)
{
	return (long)p;
}
