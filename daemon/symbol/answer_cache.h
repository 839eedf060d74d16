/*
 * Answers that are kept on disk (daemon/cache/), so that what was looked up once need not be looked
 * up again: of the addresses of one module, as they came out of certain files.
 */
#pragma once

#include "common/err.h"
#include "daemon/cache/cache.h"
#include "daemon/symbol/answers.h"
#include "daemon/symbol/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_ANSWER_CACHE_BYTES (UINT64_C(256) << 20) /* on disk */

extern const struct kp_cache_kind kp_answer_cache_kind;

/* What the answers of a module are made of: the module by its build id, and its files as they are. */
struct kp_answer_source {
	uint8_t build_id[KP_CACHE_ID_MAX];
	uint32_t build_id_len; /* 0: not to be kept */
	uint32_t variant; /* of the files; not 0 */
	uint16_t machine; /* e_machine */
};

/* As text, for a worker's answer: "deadbeef... 62 12345678". */
#define KP_ANSWER_SOURCE_TEXT (2 * KP_CACHE_ID_MAX + 32)
void kp_answer_source_write(const struct kp_answer_source *source,
			    char ret[static KP_ANSWER_SOURCE_TEXT]);
bool kp_answer_source_read(const char *text, struct kp_answer_source *ret);

/* One entry. All zero is an empty one. */
struct kp_kept_answers {
	struct kp_answers_view view;
	void *bytes; /* behind the view */
	uint64_t size;
};

/* What is kept; empty where there is nothing. The frames are put into the arena. */
int kp_kept_answers_load(struct kp_cache *cache, const struct kp_answer_source *source,
			 struct kp_arena *arena, struct kp_kept_answers *ret, struct kp_err *err);
void kp_kept_answers_deinit(struct kp_kept_answers *kept);

/*
 * False: nothing is kept of that offset. *at is 0 at first and the function's then; offsets are asked
 * for in ascending order.
 */
bool kp_kept_answers_find(const struct kp_kept_answers *kept, size_t *at, uint64_t offset,
			  struct kp_frames *ret);

/*
 * Keeps new answers along with those that are kept already, or, where that would be too much,
 * instead of them. note: of the module. Failing to write is no error: they are made again.
 */
int kp_kept_answers_save(struct kp_cache *cache, const struct kp_answer_source *source,
			 const struct kp_kept_answers *kept, const struct kp_answers *fresh,
			 struct kp_err *err);
