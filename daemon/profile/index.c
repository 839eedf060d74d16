/*
 * The hash table of ids. Runs in the daemon.
 */
#include "daemon/profile/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64u
#define CAPACITY_MAX (UINT32_C(1) << 31)

void kp_index_deinit(struct kp_index *x)
{
	free(x->slot);
	*x = (struct kp_index){ 0 };
}

static uint32_t upper_half(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* The slot of the upper half of a hash: of it alone, so that growing needs no key. */
static uint32_t first_slot(const struct kp_index *x, uint32_t hash)
{
	return hash & (x->capacity - 1);
}

uint32_t kp_index_find(const struct kp_index *x, uint64_t hash, kp_index_same_fn same,
		       const void *ctx, const void *key)
{
	uint32_t wanted = upper_half(hash);

	if (!x->capacity)
		return KP_INDEX_NONE;
	/* Never full (see make_room), so a free slot ends the search. */
	for (uint32_t i = first_slot(x, wanted);; i = (i + 1) & (x->capacity - 1)) {
		const struct kp_index_slot *s = &x->slot[i];

		if (s->id == KP_INDEX_NONE)
			return KP_INDEX_NONE;
		if (s->hash == wanted && same(ctx, s->id, key))
			return s->id;
	}
}

static void put(struct kp_index *x, uint32_t hash, uint32_t id)
{
	uint32_t i = first_slot(x, hash);

	while (x->slot[i].id != KP_INDEX_NONE)
		i = (i + 1) & (x->capacity - 1);
	x->slot[i] = (struct kp_index_slot){ .hash = hash, .id = id };
	x->count++;
}

void kp_index_clear(struct kp_index *x)
{
	/* 0xff in all bytes is KP_INDEX_NONE as id. */
	if (x->capacity)
		memset(x->slot, 0xff, (size_t)x->capacity * sizeof(*x->slot));
	x->count = 0;
}

/* At most three quarters of the slots are taken. */
static int make_room(struct kp_index *x, struct kp_err *err)
{
	struct kp_index grown = { .capacity = x->capacity ? x->capacity * 2 : FIRST_CAPACITY };

	if (x->count < x->capacity - x->capacity / 4)
		return 0;
	if (x->capacity >= CAPACITY_MAX)
		return kp_fail_nomem(err);
	grown.slot = calloc(grown.capacity, sizeof(*grown.slot));
	if (!grown.slot)
		return kp_fail_nomem(err);
	kp_index_clear(&grown);
	for (uint32_t i = 0; i < x->capacity; i++) {
		if (x->slot[i].id != KP_INDEX_NONE)
			put(&grown, x->slot[i].hash, x->slot[i].id);
	}
	free(x->slot);
	*x = grown;
	return 0;
}

int kp_index_add(struct kp_index *x, uint64_t hash, uint32_t id, struct kp_err *err)
{
	int r;

	assert(id != KP_INDEX_NONE);
	r = make_room(x, err);
	if (r < 0)
		return r;
	put(x, upper_half(hash), id);
	return 0;
}

/*
 * One round of multiply and fold: the 128-bit product of two odd-ish words mixes every bit of the
 * input into the upper half that the index uses. The constants are the fractional parts of the
 * square roots of 2 and 3, made odd.
 */
uint64_t kp_hash_word(uint64_t hash, uint64_t word)
{
	unsigned __int128 product = (unsigned __int128)(hash ^ UINT64_C(0x6a09e667f3bcc909)) *
				    (word ^ UINT64_C(0xbb67ae8584caa73b));

	/* The sum keeps what a factor of zero would swallow. */
	return (uint64_t)product ^ (uint64_t)(product >> 64) ^ (hash + (word << 32 | word >> 32));
}

uint64_t kp_hash_bytes(const void *data, size_t size)
{
	const uint8_t *at = data;
	uint64_t hash = size;
	uint64_t word;

	for (; size >= 8; at += 8, size -= 8) {
		word = 0;
		for (int i = 0; i < 8; i++)
			word |= (uint64_t)at[i] << (8 * i);
		hash = kp_hash_word(hash, word);
	}
	word = 0;
	for (size_t i = 0; i < size; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return kp_hash_word(hash, word);
}
