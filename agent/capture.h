/*
 * The CPU that this image runs on; capture_<cpu>.c. The same functions for each CPU, so that a
 * diff of two of them is the porting guide.
 *
 * Runs in the target's signal handler.
 */
#pragma once

#include "common/unwind/fp.h"

/* The registers that a walk starts from, of the code that the signal interrupted. */
void kp_capture_regs(const void *ucontext, struct kp_regs *ret);

/* A kp_leaf_register_fn of common/unwind/cfi.h: any general register of that code. */
int kp_capture_register(void *ucontext, uint32_t dwarf_number, uint64_t *ret);

/*
 * Makes the handler that runs on this signal frame return through restorer (sa_restorer of its
 * action) instead of through ours. Nothing to do where the kernel returns through its vdso.
 */
void kp_capture_return_through(void *ucontext, uint64_t restorer);

/* This CPU's table. */
const struct kp_arch *kp_capture_arch(void);
