/* Answers as bytes: what comes out is what went in, or nothing. */
#include "daemon/symbol/answers.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct kp_frame chain[] = {
	{ "inner(int)", "_Z5inneri", "/src/a.c", 7, 3, true },
	{ "outer", "outer", NULL, 0, 0, false },
};
static const uint64_t offsets[] = { 0x10, 0x20, 0x21, 0x30 };
static const struct kp_frames frames[] = {
	{ chain, 2, 0x1010 },
	{ NULL, 0, 0x1020 },
	{ chain + 1, 1, 0x1021 },
	{ chain + 1, 1, 0x1030 },
};
static const struct kp_answers four = { offsets, frames, 4, "/bin/x: stripped" };

static struct kp_arena arena;

static void encode(const struct kp_answers *answers, void **ret, size_t *ret_size)
{
	cr_assert_eq(kp_answers_encode(answers, ret, ret_size, NULL), 0);
}

static void assert_frame(const struct kp_frame *got, const struct kp_frame *wanted)
{
	cr_assert_str_eq(got->name, wanted->name);
	cr_assert_str_eq(got->system_name, wanted->system_name);
	cr_assert_eq(got->file == NULL, wanted->file == NULL);
	if (wanted->file)
		cr_assert_str_eq(got->file, wanted->file);
	cr_assert_eq(got->line, wanted->line);
	cr_assert_eq(got->start_line, wanted->start_line);
	cr_assert_eq(got->inlined, wanted->inlined);
}

Test(answers, come_back_as_they_were)
{
	struct kp_answers_view view;
	size_t size;
	void *bytes;

	encode(&four, &bytes, &size);
	cr_assert_eq(kp_answers_open(bytes, size, &arena, &view, NULL), 0);
	cr_assert_eq(view.count, 4);
	cr_assert_str_eq(view.note, four.note);
	for (size_t i = 0; i < 4; i++) {
		struct kp_frames got = kp_answers_frames(&view, i);

		cr_assert_eq(view.answer[i].offset, offsets[i]);
		cr_assert_eq(got.address, frames[i].address);
		cr_assert_eq(got.count, frames[i].count);
		for (uint32_t j = 0; j < got.count; j++)
			assert_frame(&got.frame[j], &frames[i].frame[j]);
	}
	free(bytes);
	kp_arena_deinit(&arena);
}

Test(answers, of_nothing_are_none)
{
	struct kp_answers none = { 0 };
	struct kp_answers_view view;
	size_t size;
	void *bytes;

	encode(&none, &bytes, &size);
	cr_assert_eq(kp_answers_open(bytes, size, &arena, &view, NULL), 0);
	cr_assert_eq(view.count, 0);
	cr_assert_null(view.note);
	free(bytes);
	kp_arena_deinit(&arena);
}

/* A copy that is exactly that long, so that a sanitizer sees a read behind it. */
static int open_copy(const void *bytes, size_t size, struct kp_answers_view *ret, void **ret_copy)
{
	*ret_copy = malloc(size ? size : 1);
	memcpy(*ret_copy, bytes, size);
	return kp_answers_open(*ret_copy, size, &arena, ret, NULL);
}

Test(answers, cut_anywhere_are_refused)
{
	struct kp_answers_view view;
	size_t size;
	void *bytes, *copy;

	encode(&four, &bytes, &size);
	for (size_t cut = 0; cut < size; cut++) {
		cr_assert_lt(open_copy(bytes, cut, &view, &copy), 0);
		free(copy);
	}
	free(bytes);
	kp_arena_deinit(&arena);
}

static size_t read_all(const struct kp_answers_view *view)
{
	size_t sum = 0;

	for (size_t i = 0; i < view->count; i++) {
		struct kp_frames got = kp_answers_frames(view, i);

		for (uint32_t j = 0; j < got.count; j++)
			sum += strlen(got.frame[j].name) + strlen(got.frame[j].system_name) +
			       (got.frame[j].file ? strlen(got.frame[j].file) : 0);
	}
	return sum;
}

Test(answers, damaged_anywhere_are_refused_or_harmless)
{
	static const uint8_t mask[] = { 0x01, 0x80, 0xff };
	struct kp_answers_view view;
	size_t size, refused = 0;
	void *bytes, *copy;

	encode(&four, &bytes, &size);
	for (size_t at = 0; at < size; at++) {
		for (size_t i = 0; i < sizeof(mask); i++) {
			((uint8_t *)bytes)[at] ^= mask[i];
			if (open_copy(bytes, size, &view, &copy) < 0)
				refused++;
			else
				cr_assert_lt(read_all(&view), 1000);
			free(copy);
			((uint8_t *)bytes)[at] ^= mask[i];
		}
	}
	cr_assert_gt(refused, 0);
	free(bytes);
	kp_arena_deinit(&arena);
}

Test(answers, with_strings_that_are_not_clean_are_refused)
{
	static const char *const bad[] = { "a\nb", "a\x80", "\x1b[2J" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kp_frame frame = { .name = bad[i], .system_name = "x" };
		struct kp_frames one = { &frame, 1, 1 };
		struct kp_answers answers = { offsets, &one, 1, NULL };
		struct kp_answers_view view;
		size_t size;
		void *bytes;

		encode(&answers, &bytes, &size);
		cr_assert_lt(kp_answers_open(bytes, size, &arena, &view, NULL), 0);
		free(bytes);
	}
	kp_arena_deinit(&arena);
}
