/*
 * Address ranges of a process. Runs in the daemon.
 */
#include "daemon/profile/address_space.h"

#include "daemon/profile/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kp_address_space_deinit(struct kp_address_space *a)
{
	free(a->range);
	*a = (struct kp_address_space){ 0 };
}

/* Index of the first range that ends above address; count if none does. */
static uint32_t first_above(const struct kp_address_space *a, uint64_t address)
{
	uint32_t low = 0, high = a->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (a->range[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

int kp_address_space_map(struct kp_address_space *a, const struct kp_address_range *range,
			 struct kp_err *err)
{
	uint32_t first = first_above(a, range->start), behind = first, n = 0;
	struct kp_address_range piece[3];
	int r;

	assert(range->start < range->end && range->module);
	while (behind < a->count && a->range[behind].start < range->end)
		behind++;
	/* Ranges first..behind-1 are touched; their place is taken by at most three. */
	if (behind > first && a->range[first].start < range->start) {
		piece[n] = a->range[first];
		piece[n++].end = range->start;
	}
	piece[n++] = *range;
	if (behind > first && a->range[behind - 1].end > range->end) {
		piece[n] = a->range[behind - 1];
		piece[n++].start = range->end;
	}
	r = kp_array_reserve(a->range, &a->capacity, (uint64_t)a->count + n, err);
	if (r < 0)
		return r;
	memmove(&a->range[first + n], &a->range[behind], (a->count - behind) * sizeof(*a->range));
	memcpy(&a->range[first], piece, n * sizeof(*piece));
	a->count = a->count - (behind - first) + n;
	return 0;
}

int kp_address_space_copy(struct kp_address_space *a, const struct kp_address_space *from,
			  struct kp_err *err)
{
	int r;

	kp_address_space_deinit(a);
	r = kp_array_reserve(a->range, &a->capacity, from->count, err);
	if (r < 0)
		return r;
	if (from->count)
		memcpy(a->range, from->range, from->count * sizeof(*a->range));
	a->count = from->count;
	return 0;
}

uint32_t kp_address_space_find(const struct kp_address_space *a, uint64_t address)
{
	uint32_t i = first_above(a, address);

	return i < a->count && a->range[i].start <= address ? a->range[i].module : 0;
}
