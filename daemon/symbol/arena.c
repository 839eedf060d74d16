/* Memory that is freed all at once: see arena.h. Runs in the daemon; one thread an arena. */
#include "daemon/symbol/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)

struct kp_arena_chunk {
	struct kp_arena_chunk *next;
	size_t size, used;
	alignas(max_align_t) unsigned char bytes[];
};

void kp_arena_deinit(struct kp_arena *arena)
{
	while (arena->chunk) {
		struct kp_arena_chunk *chunk = arena->chunk;

		arena->chunk = chunk->next;
		free(chunk);
	}
}

static struct kp_arena_chunk *grow(struct kp_arena *arena, size_t size)
{
	struct kp_arena_chunk *chunk;

	if (size < CHUNK_BYTES)
		size = CHUNK_BYTES;
	if (size > SIZE_MAX - sizeof(*chunk))
		return NULL;
	chunk = calloc(1, sizeof(*chunk) + size);
	if (!chunk)
		return NULL;
	chunk->size = size;
	chunk->next = arena->chunk;
	arena->chunk = chunk;
	return chunk;
}

void *kp_arena_alloc(struct kp_arena *arena, size_t size)
{
	struct kp_arena_chunk *chunk = arena->chunk;
	void *ret;

	if (size > SIZE_MAX - alignof(max_align_t))
		return NULL;
	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!chunk || chunk->size - chunk->used < size)
		chunk = grow(arena, size);
	if (!chunk)
		return NULL;
	ret = chunk->bytes + chunk->used;
	chunk->used += size;
	return ret;
}

char *kp_arena_copy(struct kp_arena *arena, const void *data, size_t len)
{
	char *ret;

	if (len == SIZE_MAX)
		return NULL;
	ret = kp_arena_alloc(arena, len + 1);
	if (ret && len)
		memcpy(ret, data, len);
	return ret;
}
