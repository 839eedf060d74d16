/* The reader of answers (daemon/symbol/answers.h) over bytes: workers and files may send anything. */
#include "tests/fuzz/fuzz.h"

#include "daemon/symbol/answers.h"

#include <stdlib.h>
#include <string.h>

static void look_at(const struct kp_frame *f)
{
	if (strlen(f->name) > KP_ANSWERS_BYTES_MAX ||
	    strlen(f->system_name) > KP_ANSWERS_BYTES_MAX ||
	    (f->file && strlen(f->file) > KP_ANSWERS_BYTES_MAX))
		abort();
}

/* What was taken can be written again, and is the same then. */
static void write_again(const struct kp_answers_view *view)
{
	uint64_t *offset = calloc(view->count + 1, sizeof(*offset));
	struct kp_frames *frames = calloc(view->count + 1, sizeof(*frames));
	struct kp_answers answers = { offset, frames, view->count, view->note };
	struct kp_answers_view again;
	struct kp_arena arena = { 0 };
	void *bytes;
	size_t size;

	if (!offset || !frames)
		abort();
	for (size_t i = 0; i < view->count; i++) {
		offset[i] = view->answer[i].offset;
		frames[i] = kp_answers_frames(view, i);
		for (uint32_t j = 0; j < frames[i].count; j++)
			look_at(&frames[i].frame[j]);
	}
	/* A few frames that all answers share may be more than there is room for. */
	if (kp_answers_encode(&answers, &bytes, &size, NULL) == 0) {
		if (kp_answers_open(bytes, size, &arena, &again, NULL) != 0 ||
		    again.count != view->count)
			abort();
		free(bytes);
	}
	kp_arena_deinit(&arena);
	free(offset);
	free(frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_arena arena = { 0 };
	struct kp_answers_view view;
	void *copy = malloc(size ? size : 1); /* aligned, and exactly that long */

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	if (kp_answers_open(copy, size, &arena, &view, NULL) == 0)
		write_again(&view);
	kp_arena_deinit(&arena);
	free(copy);
	return 0;
}
