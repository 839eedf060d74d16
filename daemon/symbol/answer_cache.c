/* Answers on disk: answer_cache.h. Runs in the daemon. */
#include "daemon/symbol/answer_cache.h"

#include "common/cleanup.h"
#include "daemon/cache/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * First number: the layout of answers.c. Second: to be raised whenever the same files give other
 * names, lines or inlined frames than before.
 */
const struct kp_cache_kind kp_answer_cache_kind = {
	.directory = "names",
	.suffix = ".names",
	.version = 1 << 16 | 2,
	.entry_max = UINT64_C(64) << 20,
};

/* ---- source ---- */

void kp_answer_source_write(const struct kp_answer_source *source,
			    char ret[static KP_ANSWER_SOURCE_TEXT])
{
	size_t at = 0;

	for (uint32_t i = 0; i < source->build_id_len; i++)
		at += (size_t)sprintf(ret + at, "%02x", source->build_id[i]);
	sprintf(ret + at, " %u %08x", source->machine, source->variant);
}

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

bool kp_answer_source_read(const char *text, struct kp_answer_source *ret)
{
	unsigned machine, variant;
	char end;

	*ret = (struct kp_answer_source){ 0 };
	while (*text && *text != ' ') {
		int high = digit_of(text[0]), low = high < 0 ? -1 : digit_of(text[1]);

		if (low < 0 || ret->build_id_len == KP_CACHE_ID_MAX)
			return false;
		ret->build_id[ret->build_id_len++] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	if (sscanf(text, " %5u %8x%c", &machine, &variant, &end) != 2 || machine > UINT16_MAX ||
	    !variant || ret->build_id_len < KP_CACHE_ID_MIN)
		return false;
	ret->machine = (uint16_t)machine;
	ret->variant = variant;
	return true;
}

static struct kp_cache_key key_of(const struct kp_answer_source *source)
{
	return (struct kp_cache_key){ source->build_id, source->build_id_len, source->machine,
				      source->variant };
}

/* ---- entries ---- */

int kp_kept_answers_load(struct kp_cache *cache, const struct kp_answer_source *source,
			 struct kp_arena *arena, struct kp_kept_answers *ret, struct kp_err *err)
{
	struct kp_cache_key key = key_of(source);
	int r;

	*ret = (struct kp_kept_answers){ 0 };
	if (kp_cache_load(cache, &key, &ret->bytes, &ret->size) != 0)
		return 0;
	r = kp_answers_open(ret->bytes, ret->size, arena, &ret->view, err);
	if (r < 0)
		kp_kept_answers_deinit(ret);
	return r == -KP_ENOMEM ? r : 0;
}

void kp_kept_answers_deinit(struct kp_kept_answers *kept)
{
	kp_cache_memory_destroy(kept->bytes, kept->size);
	*kept = (struct kp_kept_answers){ 0 };
}

/* The first one at or behind the offset: in steps that double, then by halves. */
static size_t seek(const struct kp_answers_view *view, size_t from, uint64_t offset)
{
	size_t step = 1, low = from, high;

	while (low + step < view->count && view->answer[low + step].offset < offset) {
		low += step;
		step *= 2;
	}
	high = view->count - low > step ? low + step : view->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (view->answer[mid].offset < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool kp_kept_answers_find(const struct kp_kept_answers *kept, size_t *at, uint64_t offset,
			  struct kp_frames *ret)
{
	const struct kp_answers_view *view = &kept->view;

	*at = seek(view, *at, offset);
	if (*at == view->count || view->answer[*at].offset != offset)
		return false;
	*ret = kp_answers_frames(view, *at);
	return true;
}

/* ---- saving ---- */

/* Both in order; offset and frames have room for both. */
static size_t merge(const struct kp_answers_view *old, const struct kp_answers *fresh,
		    uint64_t *offset, struct kp_frames *frames)
{
	size_t i = 0, j = 0, n = 0;

	while (i < old->count || j < fresh->count) {
		bool take_old = j == fresh->count ||
				(i < old->count && old->answer[i].offset < fresh->offset[j]);

		/* of two that answer the same, the new one */
		if (!take_old && i < old->count && old->answer[i].offset == fresh->offset[j])
			i++;
		offset[n] = take_old ? old->answer[i].offset : fresh->offset[j];
		frames[n++] = take_old ? kp_answers_frames(old, i) : fresh->frames[j];
		i += take_old;
		j += !take_old;
	}
	return n;
}

static int write_out(struct kp_cache *cache, const struct kp_answer_source *source,
		     const struct kp_answers *answers, bool *ret_saved, struct kp_err *err)
{
	struct kp_cache_key key = key_of(source);
	_cleanup_(kp_freep) void *bytes = NULL;
	size_t size;
	int r = kp_answers_encode(answers, &bytes, &size, err);

	if (r < 0)
		return r;
	*ret_saved = kp_cache_save(cache, &key, bytes, size, NULL) == 0;
	return 0;
}

int kp_kept_answers_save(struct kp_cache *cache, const struct kp_answer_source *source,
			 const struct kp_kept_answers *kept, const struct kp_answers *fresh,
			 struct kp_err *err)
{
	size_t most = kept->view.count + fresh->count;
	_cleanup_(kp_freep) uint64_t *offset = calloc(most + 1, sizeof(*offset));
	_cleanup_(kp_freep) struct kp_frames *frames = calloc(most + 1, sizeof(*frames));
	struct kp_answers all = { offset, frames, 0, fresh->note };
	bool saved = false;
	int r;

	if (!offset || !frames)
		return kp_fail_nomem(err);
	all.count = merge(&kept->view, fresh, offset, frames);
	r = write_out(cache, source, &all, &saved, err);
	if (r == 0 && !saved && kept->view.count)
		r = write_out(cache, source, fresh, &saved, err);
	return r;
}
