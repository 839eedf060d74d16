/*
 * What was made of a module's file and can be made again, on disk, one file per build id and kind, so
 * that it is made once and not in every session: $XDG_CACHE_HOME/kitprof/KIND/, else
 * ~/.cache/kitprof/KIND/.
 *
 * An entry is used only if it is a regular file that belongs to this user and that nobody else can
 * write to, and if its checksum is right; one that is damaged is deleted, so that it is made again.
 * That is for correctness: whoever reads what is in it trusts no byte of it, so a forged one could
 * make a profile wrong and no more.
 *
 * Entries are written beside and renamed: several kitprofs may use the directory at once. A session
 * and its workers use a cache one at a time; no thread safety.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Something that is kept. */
struct kp_cache_kind {
	const char *directory;
	const char *suffix; /* of an entry's name, with the dot */
	/*
	 * Of what is in an entry, major << 16 | minor. To be raised when other bytes are made of the
	 * same files, or they mean something else: older entries are then not found any more, and go
	 * when room is needed.
	 */
	uint32_t version;
	uint64_t entry_max; /* bytes; less than 4 GiB */
};

#define KP_CACHE_ID_MIN 8u /* bytes; a shorter build id names too little */
#define KP_CACHE_ID_MAX 64u

struct kp_cache;

struct kp_cache_key {
	const uint8_t *build_id;
	size_t build_id_len; /* KP_CACHE_ID_MIN..KP_CACHE_ID_MAX, else nothing is found or saved */
	uint16_t machine; /* e_machine */
	uint32_t variant; /* of several entries for one build id; 0 where there is only one */
};

/*
 * Whether what a file says of itself, its build id, may be believed of other files too: it belongs
 * to root or to this user, and nobody else can write to it.
 */
bool kp_cache_trusts(const struct stat *st);

/* What the environment says; an error where it says nothing that can be used. */
int kp_cache_base(char *ret, size_t size, struct kp_err *err);

/*
 * The cache below the directory base, made if it is not there; kind must
 * outlive it, max_bytes is what all its entries may take. Base must belong to this user: with
 * somebody else's HOME (sudo) nothing is made there. An error says why there is no cache.
 */
int kp_cache_create(const char *base, const struct kp_cache_kind *kind, uint64_t max_bytes,
		    struct kp_cache **ret, struct kp_err *err);
void kp_cache_destroy(struct kp_cache *cache);

/* Its one descriptor, for those who close all others. Owned by the cache. */
int kp_cache_fd(const struct kp_cache *cache);

#define KP_CACHE_MISS 1

/*
 * 0: *ret is what was saved, to be given to kp_cache_memory_destroy(). KP_CACHE_MISS: no entry, or
 * none that could be used.
 */
int kp_cache_load(struct kp_cache *cache, const struct kp_cache_key *key, void **ret,
		  uint64_t *ret_bytes);

/* Replaces what is there. */
int kp_cache_save(struct kp_cache *cache, const struct kp_cache_key *key, const void *data,
		  uint64_t bytes, struct kp_err *err);

/*
 * Deletes entries, those first that were not used for the longest time, until all together have
 * room; and what writers that died have left for an hour.
 */
void kp_cache_trim(struct kp_cache *cache);
