/*
 * The answers to many addresses of one module in one piece of memory: what a worker sends, and what
 * is kept on disk. Whoever opens such a piece trusts no byte of it.
 *
 * In it, in the byte order of the machine: struct kp_answers_head, the answers, sorted by offset,
 * the frames, the strings.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/arena.h"
#include "daemon/symbol/frame.h"

#include <stddef.h>
#include <stdint.h>

#define KP_ANSWERS_BYTES_MAX (UINT64_C(256) << 20)

struct kp_answers_head {
	uint32_t magic;
	uint32_t answer_count, frame_count, string_bytes;
	uint32_t note; /* string: see kp_symbolizer_note(); 0: none */
	uint32_t pad;
};
_Static_assert(sizeof(struct kp_answers_head) == 24, "on disk");

struct kp_answer {
	uint64_t offset; /* what was asked */
	uint64_t address; /* as in struct kp_frames */
	uint32_t first_frame, frame_count;
};
_Static_assert(sizeof(struct kp_answer) == 24, "on disk");

/* Several questions. frames[i] answers offset[i]; offsets ascend, none is there twice. */
struct kp_answers {
	const uint64_t *offset;
	const struct kp_frames *frames;
	size_t count;
	const char *note; /* or NULL */
};

/* *ret is to be freed. */
int kp_answers_encode(const struct kp_answers *answers, void **ret, size_t *ret_bytes,
		      struct kp_err *err);

/* What was opened. */
struct kp_answers_view {
	const struct kp_answer *answer; /* inside the bytes */
	size_t count;
	const struct kp_frame *frame; /* in the arena; their strings are inside the bytes */
	const char *note; /* or NULL; inside the bytes */
};

/*
 * Checks everything. bytes: 8-aligned, and must outlive what is taken from the view.
 * -KP_EBADDATA: no such piece; -KP_ENOMEM.
 */
int kp_answers_open(const void *bytes, size_t size, struct kp_arena *arena,
		    struct kp_answers_view *ret, struct kp_err *err);

static inline struct kp_frames kp_answers_frames(const struct kp_answers_view *view, size_t i)
{
	const struct kp_answer *a = &view->answer[i];

	return (struct kp_frames){ view->frame + a->first_frame, a->frame_count, a->address };
}
