/*
 * Address -> the innermost of the ranges that cover it. Ranges are added in any order and may
 * nest, overlap and repeat; finishing makes them flat, so that a look-up is one binary search.
 * Symbols, units and functions with what was inlined into them are all kept in this form.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_range {
	uint64_t start, end;
	uint32_t rank, value;
};

/* Empty when zeroed. */
struct kp_rangemap {
	struct kp_range *range;
	size_t count, capacity;
};

void kp_rangemap_deinit(struct kp_rangemap *map);

/* An empty range (end <= start) is left out. */
int kp_rangemap_add(struct kp_rangemap *map, const struct kp_range *range, struct kp_err *err);

/*
 * To be called once, before the first look-up. Where ranges overlap, the one that starts last
 * wins; among those with the same start the one with the highest rank; then the shortest; then
 * the one with the highest value.
 */
int kp_rangemap_finish(struct kp_rangemap *map, struct kp_err *err);

bool kp_rangemap_find(const struct kp_rangemap *map, uint64_t address, uint32_t *ret_value);
