/*
 * Names of code that programs compile for themselves, as a raw profile has them (SYMBOL). Filled in
 * one pass over it, asked in the next.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/address_space.h"
#include "daemon/symbol/frame.h"
#include "proto/rawfile.h"

#include <stdint.h>

struct kp_jit_process {
	uint32_t pid;
	struct kp_address_space space; /* what lies where: 1 + its place in function */
};

/* All zero is the empty one. */
struct kp_jit {
	struct kp_frame *function; /* their names live as long as this does */
	uint32_t count, capacity;
	struct kp_jit_process *process;
	uint32_t process_count, process_capacity;
};

/* Takes a SYMBOL in; other records change nothing. 0 or -KP_ENOMEM. */
int kp_jit_apply(struct kp_jit *jit, const struct kp_raw_record *record, struct kp_err *err);

/* The function at an address of a process; NULL: none is known. Valid until the next is applied. */
const struct kp_frame *kp_jit_find(const struct kp_jit *jit, uint32_t pid, uint64_t address);

void kp_jit_deinit(struct kp_jit *jit);
