/*
 * CPU time in known portions, without a clock: a chain of multiplications, where each waits for
 * the one before, takes the same time wherever the loop lies and however the rest is compiled.
 * A macro: an inline function would, rightly, be the leaf of every stack.
 */
#pragma once

#include <stdint.h>

#define BURN(count)                                                                                \
	do {                                                                                       \
		uint64_t burn_x = 1;                                                               \
                                                                                                   \
		for (long burn_n = (count); burn_n > 0; burn_n--) {                                \
			burn_x = burn_x * UINT64_C(6364136223846793005) + 1;                       \
			__asm__ volatile("" : "+r"(burn_x));                                       \
		}                                                                                  \
	} while (0)
