/*
 * Arrays that grow. Geometric growth, no overflow of counts or bytes, the old array stays valid
 * when there is no memory. Counts are 32 bits: nothing in a profile has more.
 */
#pragma once

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * array, holding *capacity elements of element_bytes each, with room for at least needed of them.
 * Returns the array, perhaps moved, and updates *capacity; NULL when there is no memory, then
 * array and *capacity are as before. needed >= 1.
 */
void *kp_array_grow(void *array, uint32_t *capacity, uint64_t needed, size_t element_bytes);

/* Makes room for needed elements in array, an lvalue. 0 or -KP_ENOMEM. */
#define kp_array_reserve(array, capacity, needed, err)                                             \
	({                                                                                         \
		void *grown = kp_array_grow((array), (capacity), (needed), sizeof(*(array)));      \
		if (grown)                                                                         \
			(array) = grown;                                                           \
		grown ? 0 : kp_fail_nomem(err);                                                    \
	})
