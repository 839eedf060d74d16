/*
 * Memory that is freed all at once: what the symbolizer hands out lives as long as the symbolizer.
 */
#pragma once

#include <stddef.h>

struct kp_arena_chunk;

struct kp_arena {
	struct kp_arena_chunk *chunk; /* newest first */
};

/* An arena is empty when zeroed. */
void kp_arena_deinit(struct kp_arena *arena);

/* size bytes, zeroed, aligned for any type; NULL when out of memory. */
void *kp_arena_alloc(struct kp_arena *arena, size_t size);

/* A copy of the len bytes at data with a NUL byte behind it; NULL when out of memory. */
char *kp_arena_copy(struct kp_arena *arena, const void *data, size_t len);
