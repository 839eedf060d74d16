/*
 * What was mapped where in one process: disjoint ranges, sorted by address, each belonging to a
 * module. A later mapping replaces what it covers, as mmap(2) with MAP_FIXED does; what remains of
 * a range that was cut still belongs to its module.
 */
#pragma once

#include "common/err.h"

#include <stdint.h>

struct kp_address_range {
	uint64_t start, end; /* [start, end) */
	uint32_t module; /* the caller's number for it, not 0 */
};

/* All zero is an empty address space. */
struct kp_address_space {
	struct kp_address_range *range;
	uint32_t count, capacity;
};

void kp_address_space_deinit(struct kp_address_space *a);

/* start < end. 0 or -KP_ENOMEM. */
int kp_address_space_map(struct kp_address_space *a, const struct kp_address_range *range,
			 struct kp_err *err);

/* Makes *a the same as from, whatever it was. 0 or -KP_ENOMEM. */
int kp_address_space_copy(struct kp_address_space *a, const struct kp_address_space *from,
			  struct kp_err *err);

/* The module that address lies in, 0 if there is none. */
uint32_t kp_address_space_find(const struct kp_address_space *a, uint64_t address);
