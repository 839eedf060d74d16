/*
 * From content to id: a hash table of ids, open addressing with linear probing. It does not know
 * what the ids stand for; the content stays in the caller's arrays and the caller compares.
 * Iteration is not offered: order always comes from the arrays, never from hashes.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_index_slot {
	uint32_t hash; /* upper half: tells most strangers apart without a look at the content */
	uint32_t id; /* KP_INDEX_NONE: free */
};

/* All zero is an empty index. */
struct kp_index {
	struct kp_index_slot *slot;
	uint32_t capacity; /* a power of two, or 0 */
	uint32_t count;
};

#define KP_INDEX_NONE UINT32_MAX

/* Whether what id stands for in ctx has the content of key. */
typedef bool (*kp_index_same_fn)(const void *ctx, uint32_t id, const void *key);

void kp_index_deinit(struct kp_index *x);

/* The id with that content, or KP_INDEX_NONE. */
uint32_t kp_index_find(const struct kp_index *x, uint64_t hash, kp_index_same_fn same,
		       const void *ctx, const void *key);

/* Adds an id (not KP_INDEX_NONE) whose content is not in the index yet. 0 or -KP_ENOMEM. */
int kp_index_add(struct kp_index *x, uint64_t hash, uint32_t id, struct kp_err *err);

/* Forgets all ids, keeps the memory. */
void kp_index_clear(struct kp_index *x);

/* Hashes: chain words from any start, or bytes. The same on every machine. */
uint64_t kp_hash_word(uint64_t hash, uint64_t word);
uint64_t kp_hash_bytes(const void *data, size_t size);
