/* Answers as bytes: answers.h. Runs in the daemon and in the workers that look up. */
#include "daemon/symbol/answers.h"

#include "daemon/symbol/names.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x3173616bu /* "kas1": also tells the byte order */
#define INLINED 1u

struct frame {
	uint32_t name, system_name, file; /* strings; file 0: none */
	uint32_t line, start_line, flags;
};
_Static_assert(sizeof(struct frame) == 24, "on disk");

/* ---- writing ---- */

/* A string is known by its pointer: the symbolizer has each once. */
struct known {
	const char *text;
	uint32_t at;
};

struct writer {
	struct frame *frame;
	size_t frame_count, frame_capacity;
	char *strings;
	size_t string_bytes, string_capacity;
	struct known *slot; /* open addressing; a power of two, at most half full */
	size_t slots, known;
};

static void writer_deinit(struct writer *w)
{
	free(w->frame);
	free(w->strings);
	free(w->slot);
}

static struct known *probe(struct known *slot, size_t slots, const char *text)
{
	size_t i = ((uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (slots - 1);

	while (slot[i].text && slot[i].text != text)
		i = (i + 1) & (slots - 1);
	return &slot[i];
}

static int grow_slots(struct writer *w)
{
	size_t slots = w->slots ? w->slots * 2 : 1024;
	struct known *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return -KP_ENOMEM;
	for (size_t i = 0; i < w->slots; i++)
		if (w->slot[i].text)
			*probe(slot, slots, w->slot[i].text) = w->slot[i];
	free(w->slot);
	w->slot = slot;
	w->slots = slots;
	return 0;
}

static int append_text(struct writer *w, const char *text, uint32_t *ret)
{
	size_t bytes = strlen(text) + 1;

	if (bytes > w->string_capacity - w->string_bytes) {
		size_t capacity = 2 * w->string_capacity + bytes + 4096;
		char *grown = realloc(w->strings, capacity);

		if (!grown || capacity > UINT32_MAX) {
			w->strings = grown ? grown : w->strings;
			return -KP_ENOMEM;
		}
		w->strings = grown;
		w->string_capacity = capacity;
	}
	memcpy(w->strings + w->string_bytes, text, bytes);
	*ret = (uint32_t)w->string_bytes;
	w->string_bytes += bytes;
	return 0;
}

/* NULL is the empty string at 0. */
static int put_string(struct writer *w, const char *text, uint32_t *ret)
{
	struct known *known;

	*ret = 0;
	if (!text)
		return 0;
	if (w->known >= w->slots / 2 && grow_slots(w) < 0)
		return -KP_ENOMEM;
	known = probe(w->slot, w->slots, text);
	if (!known->text) {
		if (append_text(w, text, &known->at) < 0)
			return -KP_ENOMEM;
		known->text = text;
		w->known++;
	}
	*ret = known->at;
	return 0;
}

static int put_frame(struct writer *w, const struct kp_frame *f)
{
	struct frame *out;

	if (w->frame_count == w->frame_capacity) {
		size_t capacity = w->frame_capacity ? w->frame_capacity * 2 : 1024;
		void *grown = reallocarray(w->frame, capacity, sizeof(*w->frame));

		if (!grown)
			return -KP_ENOMEM;
		w->frame = grown;
		w->frame_capacity = capacity;
	}
	out = &w->frame[w->frame_count++];
	*out = (struct frame){ .line = f->line,
			       .start_line = f->start_line,
			       .flags = f->inlined ? INLINED : 0 };
	return put_string(w, f->name, &out->name) < 0 ||
			       put_string(w, f->system_name, &out->system_name) < 0 ||
			       put_string(w, f->file, &out->file) < 0
		       ? -KP_ENOMEM
		       : 0;
}

/* Neighbours often have the same frames, which are there once then. */
static int put_answer(struct writer *w, const struct kp_frames *frames, struct kp_answer *before,
		      struct kp_answer *ret)
{
	size_t first = w->frame_count, bytes = frames->count * sizeof(struct frame);

	ret->address = frames->address;
	ret->frame_count = frames->count;
	ret->first_frame = (uint32_t)first;
	for (uint32_t i = 0; i < frames->count; i++)
		if (w->frame_count == UINT32_MAX || put_frame(w, &frames->frame[i]) < 0)
			return -KP_ENOMEM;
	if (before && bytes && before->frame_count == frames->count &&
	    memcmp(w->frame + before->first_frame, w->frame + first, bytes) == 0) {
		ret->first_frame = before->first_frame;
		w->frame_count = first;
	}
	return 0;
}

/* Puts the parts behind each other. */
static int join(const struct kp_answers_head *head, const struct kp_answer *answer,
		const struct writer *w, void **ret, size_t *ret_bytes)
{
	size_t answers = head->answer_count * sizeof(*answer);
	size_t frames = w->frame_count * sizeof(*w->frame);
	size_t bytes = sizeof(*head) + answers + frames + w->string_bytes;
	char *out = bytes <= KP_ANSWERS_BYTES_MAX ? malloc(bytes) : NULL;

	if (!out)
		return -KP_ENOMEM;
	*ret = out;
	*ret_bytes = bytes;
	memcpy(out, head, sizeof(*head));
	out += sizeof(*head);
	if (answers)
		memcpy(out, answer, answers);
	if (frames)
		memcpy(out + answers, w->frame, frames);
	memcpy(out + answers + frames, w->strings, w->string_bytes);
	return 0;
}

static int encode(struct writer *w, const struct kp_answers *a, struct kp_answer *answer,
		  void **ret, size_t *ret_bytes)
{
	struct kp_answers_head head = { .magic = MAGIC, .answer_count = (uint32_t)a->count };
	uint32_t empty;

	if (a->count > UINT32_MAX || append_text(w, "", &empty) < 0)
		return -KP_ENOMEM;
	for (size_t i = 0; i < a->count; i++) {
		answer[i].offset = a->offset[i];
		if (put_answer(w, &a->frames[i], i ? &answer[i - 1] : NULL, &answer[i]) < 0)
			return -KP_ENOMEM;
	}
	if (put_string(w, a->note, &head.note) < 0)
		return -KP_ENOMEM;
	head.frame_count = (uint32_t)w->frame_count;
	head.string_bytes = (uint32_t)w->string_bytes;
	return join(&head, answer, w, ret, ret_bytes);
}

int kp_answers_encode(const struct kp_answers *answers, void **ret, size_t *ret_bytes,
		      struct kp_err *err)
{
	struct kp_answer *answer = calloc(answers->count + 1, sizeof(*answer));
	struct writer w = { 0 };
	int r = answer ? encode(&w, answers, answer, ret, ret_bytes) : -KP_ENOMEM;

	writer_deinit(&w);
	free(answer);
	return r < 0 ? kp_fail_nomem(err) : 0;
}

/* ---- reading ---- */

struct reader {
	const struct kp_answers_head *head;
	const struct kp_answer *answer;
	const struct frame *frame;
	const char *strings;
};

static bool split(const void *bytes, size_t size, struct reader *ret)
{
	const struct kp_answers_head *head = bytes;
	uint64_t answers, frames;

	if (size < sizeof(*head) || head->magic != MAGIC || head->string_bytes == 0)
		return false;
	answers = (uint64_t)head->answer_count * sizeof(struct kp_answer);
	frames = (uint64_t)head->frame_count * sizeof(struct frame);
	if (size != sizeof(*head) + answers + frames + head->string_bytes)
		return false;
	ret->head = head;
	ret->answer = (const void *)(head + 1);
	ret->frame = (const void *)(ret->answer + head->answer_count);
	ret->strings = (const char *)(ret->frame + head->frame_count);
	return true;
}

/*
 * Eight bytes at a time, whether all are ASCII and none is a control byte but NUL. No sum carries
 * into the next byte, since all are below 0x80 where it matters.
 */
static bool are_plain(const char *strings, size_t bytes)
{
	const uint64_t top = 0x8080808080808080, one = top >> 7;

	while (bytes) {
		uint64_t word = 0, not_nul, printable, del;
		size_t n = bytes < sizeof(word) ? bytes : sizeof(word);

		memcpy(&word, strings, n);
		not_nul = (word + 0x7f * one) & top;
		printable = (word + 0x60 * one) & top;
		del = (word + one) & top;
		if (word & top || not_nul & ~printable || del)
			return false;
		strings += n;
		bytes -= n;
	}
	return true;
}

static bool are_strings(const char *strings, size_t bytes)
{
	if (strings[0] || strings[bytes - 1])
		return false;
	if (are_plain(strings, bytes))
		return true;
	for (size_t at = 0; at < bytes; at += strlen(strings + at) + 1)
		if (!kp_names_is_clean(strings + at))
			return false;
	return true;
}

static bool are_answers(const struct reader *r)
{
	for (uint32_t i = 0; i < r->head->answer_count; i++) {
		const struct kp_answer *a = &r->answer[i];

		if ((i && a->offset <= r->answer[i - 1].offset) ||
		    a->first_frame > r->head->frame_count ||
		    a->frame_count > r->head->frame_count - a->first_frame)
			return false;
	}
	return true;
}

/* NULL: not the start of a string. */
static const char *string_at(const struct reader *r, uint32_t at)
{
	if (at >= r->head->string_bytes || (at && r->strings[at - 1]))
		return NULL;
	return r->strings + at;
}

static bool take_frame(const struct reader *r, const struct frame *in, struct kp_frame *ret)
{
	ret->name = string_at(r, in->name);
	ret->system_name = string_at(r, in->system_name);
	ret->file = string_at(r, in->file);
	if (!ret->name || !ret->system_name || !ret->file || in->flags & ~INLINED)
		return false;
	if (in->file == 0)
		ret->file = NULL;
	ret->line = in->line;
	ret->start_line = in->start_line;
	ret->inlined = in->flags & INLINED;
	return true;
}

int kp_answers_open(const void *bytes, size_t size, struct kp_arena *arena,
		    struct kp_answers_view *ret, struct kp_err *err)
{
	struct reader r = { 0 };
	struct kp_frame *frame;

	if (!split(bytes, size, &r) || !are_answers(&r) ||
	    !are_strings(r.strings, r.head->string_bytes) || !string_at(&r, r.head->note))
		return kp_fail(err, KP_EBADDATA, "damaged answers");
	frame = kp_arena_alloc(arena, (r.head->frame_count + UINT64_C(1)) * sizeof(*frame));
	if (!frame)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < r.head->frame_count; i++)
		if (!take_frame(&r, &r.frame[i], &frame[i]))
			return kp_fail(err, KP_EBADDATA, "damaged frames");
	*ret = (struct kp_answers_view){
		.answer = r.answer,
		.count = r.head->answer_count,
		.frame = frame,
		.note = r.head->note ? string_at(&r, r.head->note) : NULL,
	};
	return 0;
}
