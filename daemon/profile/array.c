/*
 * Growth of arrays. Runs in the daemon.
 */
#include "daemon/profile/array.h"

#include <stdlib.h>

#define FIRST_CAPACITY 16u

void *kp_array_grow(void *array, uint32_t *capacity, uint64_t needed, size_t element_bytes)
{
	uint64_t room = *capacity ? *capacity : FIRST_CAPACITY;
	size_t bytes;
	void *grown;

	if (array && needed <= *capacity)
		return array;
	while (room < needed)
		room *= 2;
	/* The last id is never given out: UINT32_MAX means "none" to an index. */
	if (needed > UINT32_MAX - 1)
		return NULL;
	if (room > UINT32_MAX)
		room = UINT32_MAX;
	if (__builtin_mul_overflow((size_t)room, element_bytes, &bytes))
		return NULL;
	grown = realloc(array, bytes);
	if (grown)
		*capacity = (uint32_t)room;
	return grown;
}
