/*
 * The reader of raw profiles (proto/rawfile.h) over bytes: they may be damaged, and may come from
 * anybody. What it takes for well formed must be what the writer could have written: so each
 * record is written again, and read again.
 */
#include "tests/fuzz/fuzz.h"

#include "common/unwind/walk.h"
#include "proto/ring.h"
#include "proto/rawfile.h"

#include <stdlib.h>
#include <string.h>

static void check(int condition)
{
	if (!condition)
		abort();
}

struct copy {
	uint8_t *data;
	size_t size, room;
};

static int append(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	struct copy *copy = ctx;

	(void)err;
	if (size > copy->room - copy->size) {
		copy->room = (copy->size + size) * 2;
		copy->data = realloc(copy->data, copy->room);
		check(copy->data != NULL);
	}
	memcpy(copy->data + copy->size, data, size);
	copy->size += size;
	return 0;
}

static int put(struct kp_raw_writer *w, const struct kp_raw_record *r, struct kp_err *err)
{
	switch (r->type) {
	case KP_RAW_SESSION:
		return kp_raw_put_session(w, &r->session, err);
	case KP_RAW_PROCESS:
		return kp_raw_put_process(w, &r->process, err);
	case KP_RAW_THREAD:
		return kp_raw_put_thread(w, &r->thread, err);
	case KP_RAW_MODULE:
		return kp_raw_put_module(w, &r->module, err);
	case KP_RAW_IMAGE:
		return kp_raw_put_image(w, &r->image, err);
	case KP_RAW_CLOCK:
		return kp_raw_put_clock(w, &r->clock, err);
	case KP_RAW_TIME:
		return kp_raw_put_time(w, &r->time, err);
	case KP_RAW_SAMPLE:
		return kp_raw_put_sample(w, &r->sample, err);
	case KP_RAW_TALLY:
		return kp_raw_put_tally(w, &r->tally, err);
	case KP_RAW_SYMBOL:
		return kp_raw_put_symbol(w, &r->symbol, err);
	case KP_RAW_LOST:
		return kp_raw_put_lost(w, &r->lost, err);
	case KP_RAW_END:
		return kp_raw_put_end(w, &r->end, err);
	default:
		abort();
	}
}

/* Reads all, and writes it to copy if that is not NULL. Returns the number of records. */
static uint64_t read_all(const void *data, size_t size, struct copy *copy)
{
	struct kp_raw_writer writer = { append, copy };
	struct kp_raw_reader *reader = malloc(sizeof(*reader));
	struct kp_raw_record record;
	struct kp_err err;
	uint64_t records = 0;
	size_t last = 0;

	check(reader != NULL);
	if (kp_raw_reader_init(reader, data, size, "input", &err) == 0) {
		check(!copy || kp_raw_put_header(&writer, &err) == 0);
		while (kp_raw_read(reader, &record, &err) == KP_RAW_RECORD) {
			check(record.offset >= last && record.offset < size);
			last = record.offset + 8;
			check(record.type != KP_RAW_SAMPLE ||
			      (record.sample.depth >= 1 && record.sample.depth <= KP_DEPTH_MAX &&
			       record.sample.how <= KP_HOW_ALL));
			check(!copy || put(&writer, &record, &err) == 0);
			records++;
		}
	}
	free(reader);
	return records;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t *aligned = NULL;
	struct copy copy = { 0 };
	uint64_t records;

	/* Exactly as large, so that a read behind the end is seen. */
	check(posix_memalign((void **)&aligned, 8, size ? size : 1) == 0);
	memcpy(aligned, data, size);
	records = read_all(aligned, size, &copy);
	free(aligned);
	check(read_all(copy.data, copy.size, NULL) == records);
	free(copy.data);
	return 0;
}
