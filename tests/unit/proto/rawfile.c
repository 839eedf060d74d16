/*
 * Raw profiles: what is written is read back; a file cut anywhere or with any byte damaged gives
 * up all records before the damage and never crashes the reader.
 */
#include "tests/support/test.h"

#include "common/unwind/walk.h"
#include "proto/rawfile.h"
#include "proto/ring.h"

#include <stdlib.h>
#include <string.h>

/* A file in memory. */
struct file {
	uint8_t *data;
	size_t size, capacity;
	size_t calls;
};

static int write_bytes(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	struct file *f = ctx;

	(void)err;
	if (f->capacity < f->size + size) {
		f->capacity = 2 * (f->size + size);
		f->data = realloc(f->data, f->capacity);
		if (!f->data)
			abort();
	}
	memcpy(f->data + f->size, data, size);
	f->size += size;
	f->calls++;
	return 0;
}

static const uint64_t pcs[] = { 0x401000, 0x401fff, 0x7fffffffe000, UINT64_MAX };

static const struct kp_raw_session session = {
	.start_unix_ns = UINT64_C(1790000000123456789),
	.elf_machine = 62,
	.rate_mhz = 99000,
	.depth = 128,
	.mode = KP_RAW_MODE_RUN,
	.command = { "./prog -x 1", 11 },
	.host = { "host", 4 },
	.creator = { "kitprof 0.1.0", 13 },
};
static const struct kp_raw_process process = {
	.parent = 4711,
	.pid = 100,
	.comm = { "pro;g", 5 },
	.exe = { "/opt/a b/prog", 13 },
};
static const struct kp_raw_thread thread = {
	.pid = 100,
	.tid = 101,
	.comm = { "a\0b", 3 },
};
static const struct kp_raw_module module = {
	.pid = 100,
	.start = 0x401000,
	.end = 0x402000,
	.file_offset = 0x1000,
	.path = { "/opt/a b/prog", 13 },
	.build_id = { "\x01\x02\xff\x00\x7f", 5 },
};
static const struct kp_raw_image image = {
	.path = { "[vdso]", 6 },
	.bytes = { "\177ELF....", 8 },
};
static const struct kp_raw_clock rung = {
	.source = KP_SOURCE_EVENT,
	.signal = 27,
	.period_ns = 10101010,
	.kernel = 1,
	.name = { "task-clock", 10 },
};
static const struct kp_raw_time moment = { .elapsed_ns = 123456789 };
static const struct kp_raw_sample sample = {
	.pid = 100,
	.tid = 101,
	.weight_ns = 20202020,
	.depth = 4,
	.source = KP_SOURCE_TIMER,
	.walk_end = KP_WALK_DEPTH,
	.overrun = 1,
	.how = KP_HOW_TABLE | KP_HOW_SIGNAL,
	.pc = pcs,
};
static const struct kp_raw_lost lost = {
	.taken = 21,
	.kept = 6,
	.dropped_full = 1,
	.dropped_cap = 2,
	.abandoned = 5,
	.bad = 7,
};
static const struct kp_raw_end end = {
	.window_ns = 1,
	.cpu_ns = 2,
	.stop_attach_ns = 3,
	.stop_detach_ns = 4,
	.own_cpu_ns = 5,
	.why = KP_RAW_END_SIGNAL,
	.threads_seen = 7,
	.threads_unsampled = 8,
	.exit_status = 9,
	.overruns = 10,
	.lost = { 11, 12, 13, 14, 15, 16 },
	.refused = 17,
	.privileged = 18,
	.missed = 19,
	.clamped = KP_CLAMPED_TIME,
	.missed_cpu_ns = 20,
	.stops = 21,
	.stops_ns = 22,
	.modules = 23,
	.modules_with_table = 24,
};
static const struct kp_raw_tally tally = {
	.pid = 100,
	.tid = 101,
	.cpu_ns = 5000000,
	.blind_ns = 200000,
	.delay_ns = 7,
	.flags = KP_TALLY_PRESENT | KP_TALLY_BLOCKED,
};
static const struct kp_raw_symbol symbol = {
	.pid = 100,
	.start = 0x7f0000001000,
	.end = 0x7f0000001080,
	.name = { "JS:*fib /a b.js:1:13", 20 },
};
#define RECORDS 12

static struct kp_raw_writer writer(struct file *f)
{
	return (struct kp_raw_writer){ .write = write_bytes, .ctx = f };
}

/* A file with every type of record; bounds[i] is where record i begins, the last is the end. */
static struct file build(size_t bounds[RECORDS + 1])
{
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_err err;

	cr_assert_eq(kp_raw_put_header(&w, &err), 0);
	bounds[0] = f.size;
	cr_assert_eq(kp_raw_put_session(&w, &session, &err), 0);
	bounds[1] = f.size;
	cr_assert_eq(kp_raw_put_process(&w, &process, &err), 0);
	bounds[2] = f.size;
	cr_assert_eq(kp_raw_put_thread(&w, &thread, &err), 0);
	bounds[3] = f.size;
	cr_assert_eq(kp_raw_put_module(&w, &module, &err), 0);
	bounds[4] = f.size;
	cr_assert_eq(kp_raw_put_image(&w, &image, &err), 0);
	bounds[5] = f.size;
	cr_assert_eq(kp_raw_put_clock(&w, &rung, &err), 0);
	bounds[6] = f.size;
	cr_assert_eq(kp_raw_put_time(&w, &moment, &err), 0);
	bounds[7] = f.size;
	cr_assert_eq(kp_raw_put_sample(&w, &sample, &err), 0);
	bounds[8] = f.size;
	cr_assert_eq(kp_raw_put_lost(&w, &lost, &err), 0);
	bounds[9] = f.size;
	cr_assert_eq(kp_raw_put_end(&w, &end, &err), 0);
	bounds[10] = f.size;
	cr_assert_eq(kp_raw_put_tally(&w, &tally, &err), 0);
	bounds[11] = f.size;
	cr_assert_eq(kp_raw_put_symbol(&w, &symbol, &err), 0);
	bounds[12] = f.size;
	f.data = realloc(f.data, f.size); /* so that a sanitizer sees its end */
	f.capacity = f.size;
	return f;
}

static int same_string(struct kp_raw_string a, struct kp_raw_string b)
{
	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static void expect_session(const struct kp_raw_session *r)
{
	cr_assert_eq(r->start_unix_ns, session.start_unix_ns);
	cr_assert_eq(r->elf_machine, session.elf_machine);
	cr_assert_eq(r->rate_mhz, session.rate_mhz);
	cr_assert_eq(r->depth, session.depth);
	cr_assert_eq(r->mode, session.mode);
	cr_assert(same_string(r->command, session.command));
	cr_assert(same_string(r->host, session.host));
	cr_assert(same_string(r->creator, session.creator));
}

static void expect_module(const struct kp_raw_module *r)
{
	cr_assert_eq(r->pid, module.pid);
	cr_assert_eq(r->start, module.start);
	cr_assert_eq(r->end, module.end);
	cr_assert_eq(r->file_offset, module.file_offset);
	cr_assert(same_string(r->path, module.path));
	cr_assert(same_string(r->build_id, module.build_id));
}

static void expect_clock(const struct kp_raw_clock *r)
{
	cr_assert_eq(r->source, rung.source);
	cr_assert_eq(r->signal, rung.signal);
	cr_assert_eq(r->period_ns, rung.period_ns);
	cr_assert_eq(r->kernel, rung.kernel);
	cr_assert(same_string(r->name, rung.name));
}

static void expect_sample(const struct kp_raw_sample *r)
{
	cr_assert_eq(r->pid, sample.pid);
	cr_assert_eq(r->tid, sample.tid);
	cr_assert_eq(r->weight_ns, sample.weight_ns);
	cr_assert_eq(r->depth, sample.depth);
	cr_assert_eq(r->source, sample.source);
	cr_assert_eq(r->walk_end, sample.walk_end);
	cr_assert_eq(r->overrun, sample.overrun);
	cr_assert_eq(r->how, sample.how);
	cr_assert_eq((uintptr_t)r->pc % 8, 0);
	cr_assert_arr_eq(r->pc, pcs, sizeof(pcs));
}

static void expect_end(const struct kp_raw_end *r)
{
	cr_assert_eq(r->window_ns, end.window_ns);
	cr_assert_eq(r->cpu_ns, end.cpu_ns);
	cr_assert_eq(r->stop_attach_ns, end.stop_attach_ns);
	cr_assert_eq(r->stop_detach_ns, end.stop_detach_ns);
	cr_assert_eq(r->own_cpu_ns, end.own_cpu_ns);
	cr_assert_eq(r->why, end.why);
	cr_assert_eq(r->threads_seen, end.threads_seen);
	cr_assert_eq(r->threads_unsampled, end.threads_unsampled);
	cr_assert_eq(r->exit_status, end.exit_status);
	cr_assert_eq(r->overruns, end.overruns);
	cr_assert_arr_eq(&r->lost, &end.lost, sizeof(end.lost));
	cr_assert_eq(r->refused, end.refused);
	cr_assert_eq(r->privileged, end.privileged);
	cr_assert_eq(r->missed, end.missed);
	cr_assert_eq(r->clamped, end.clamped);
	cr_assert_eq(r->missed_cpu_ns, end.missed_cpu_ns);
	cr_assert_eq(r->stops, end.stops);
	cr_assert_eq(r->stops_ns, end.stops_ns);
	cr_assert_eq(r->modules, end.modules);
	cr_assert_eq(r->modules_with_table, end.modules_with_table);
}

/* Record number i of build() is as it was written. */
static void expect_record(const struct kp_raw_record *r, int i)
{
	cr_assert_eq((int)r->type, i + 1);
	switch (r->type) {
	case KP_RAW_SESSION:
		expect_session(&r->session);
		break;
	case KP_RAW_PROCESS:
		cr_assert_eq(r->process.pid, process.pid);
		cr_assert_eq(r->process.parent, process.parent);
		cr_assert(same_string(r->process.comm, process.comm));
		cr_assert(same_string(r->process.exe, process.exe));
		break;
	case KP_RAW_THREAD:
		cr_assert_eq(r->thread.pid, thread.pid);
		cr_assert_eq(r->thread.tid, thread.tid);
		cr_assert(same_string(r->thread.comm, thread.comm));
		break;
	case KP_RAW_MODULE:
		expect_module(&r->module);
		break;
	case KP_RAW_IMAGE:
		cr_assert(same_string(r->image.path, image.path));
		cr_assert(same_string(r->image.bytes, image.bytes));
		break;
	case KP_RAW_CLOCK:
		expect_clock(&r->clock);
		break;
	case KP_RAW_TIME:
		cr_assert_eq(r->time.elapsed_ns, moment.elapsed_ns);
		break;
	case KP_RAW_SAMPLE:
		expect_sample(&r->sample);
		break;
	case KP_RAW_TALLY:
		cr_assert_arr_eq(&r->tally, &tally, sizeof(tally));
		break;
	case KP_RAW_SYMBOL:
		cr_assert_eq(r->symbol.pid, symbol.pid);
		cr_assert_eq(r->symbol.start, symbol.start);
		cr_assert_eq(r->symbol.end, symbol.end);
		cr_assert(same_string(r->symbol.name, symbol.name));
		break;
	case KP_RAW_LOST:
		cr_assert_arr_eq(&r->lost, &lost, sizeof(lost));
		break;
	case KP_RAW_END:
		expect_end(&r->end);
		break;
	}
}

/* Reads what there is of record i: all of its bytes are touched, so that a sanitizer may object. */
static unsigned touch(const struct kp_raw_record *r)
{
	const struct kp_raw_string *s[3] = { NULL };
	unsigned sum = 0;

	if (r->type == KP_RAW_SESSION) {
		s[0] = &r->session.command;
		s[1] = &r->session.host;
		s[2] = &r->session.creator;
	} else if (r->type == KP_RAW_PROCESS) {
		s[0] = &r->process.comm;
		s[1] = &r->process.exe;
	} else if (r->type == KP_RAW_THREAD) {
		s[0] = &r->thread.comm;
	} else if (r->type == KP_RAW_MODULE) {
		s[0] = &r->module.path;
		s[1] = &r->module.build_id;
	} else if (r->type == KP_RAW_IMAGE) {
		s[0] = &r->image.path;
		s[1] = &r->image.bytes;
	} else if (r->type == KP_RAW_CLOCK) {
		s[0] = &r->clock.name;
	} else if (r->type == KP_RAW_SYMBOL) {
		s[0] = &r->symbol.name;
	} else if (r->type == KP_RAW_SAMPLE) {
		for (int i = 0; i < r->sample.depth; i++)
			sum += (unsigned)r->sample.pc[i];
	}
	for (int k = 0; k < 3 && s[k]; k++)
		for (uint32_t i = 0; i < s[k]->len; i++)
			sum += (unsigned char)s[k]->text[i];
	return sum;
}

Test(rawfile, reads_back_every_record)
{
	size_t bounds[RECORDS + 1];
	struct file f = build(bounds);
	struct kp_raw_reader r;
	struct kp_raw_record record;
	struct kp_err err;

	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), 0);
	for (int i = 0; i < RECORDS; i++) {
		cr_assert_eq(bounds[i] % 8, 0);
		cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
		cr_assert_eq(record.offset, bounds[i]);
		expect_record(&record, i);
	}
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_EOF);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_EOF);
	free(f.data);
}

/* A file that ends with a SAMPLE of these PCs. */
static struct file one_sample(const uint64_t *pc, uint16_t depth)
{
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_raw_sample s = sample;
	struct kp_err err;

	s.pc = pc;
	s.depth = depth;
	cr_assert_eq(kp_raw_put_header(&w, &err), 0);
	cr_assert_eq(kp_raw_put_sample(&w, &s, &err), 0);
	return f;
}

static enum kp_raw_result read_one(const struct file *f, struct kp_raw_reader *r,
				   struct kp_raw_record *ret)
{
	struct kp_err err = { 0 };

	cr_assert_eq(kp_raw_reader_init(r, f->data, f->size, "f", &err), 0);
	return kp_raw_read(r, ret, &err);
}

/* As docs/raw-format.md has it. */
Test(rawfile, sample_has_the_differences_of_its_frames)
{
	static const uint64_t pc[] = { 0x401000, 0x401010, 0x400fd0, 0x401010, 0x401010, 0x402010 };
	static const uint8_t packed[] = { 0x80, 0xc0, 0x80, 0x04, 0x20, 0x7f, 0, 2,
					  0,	1,    0x80, 0x40, 0,	0,    0, 0 };
	struct file f = one_sample(pc, 6);

	cr_assert_eq(f.size, 16 + 32 + sizeof(packed));
	cr_assert_arr_eq(f.data + 48, packed, sizeof(packed));
	free(f.data);
}

/* Few places that come again, places near each other, and anything; shallow and deep. */
Test(rawfile, any_stack_is_read_as_it_was_written)
{
	uint64_t state = 1;

	for (int round = 0; round < 4000; round++) {
		uint16_t depth = (uint16_t)(1 + round % KP_DEPTH_MAX);
		uint64_t pc[KP_DEPTH_MAX];
		struct kp_raw_reader r;
		struct kp_raw_record record;
		struct file f;

		for (int i = 0; i < depth; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			pc[i] = round % 3 == 0	 ? state >> 61
				: round % 3 == 1 ? 0x7f0000000000 + (state >> 44)
						 : state;
		}
		f = one_sample(pc, depth);
		cr_assert_eq(read_one(&f, &r, &record), KP_RAW_RECORD);
		cr_assert_eq(record.sample.depth, depth);
		cr_assert_arr_eq(record.sample.pc, pc, depth * sizeof(*pc));
		free(f.data);
	}
}

Test(rawfile, frames_that_make_no_sense_are_not_taken)
{
	static const uint64_t pc[] = { 5, 5, 5 }; /* 10, 0 1, 0 1 */
	static const uint8_t bad[][8] = {
		{ 10, 0, 0, 0, 1 }, /* the same as itself */
		{ 10, 0, 2, 0, 1 }, /* as one before the first */
		{ 10, 0, 1, 0, 3 },
		{ 10, 0, 1, 0, 1, 0, 0, 1 }, /* something behind */
		{ 10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 }, /* a number that does not end */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct file f = one_sample(pc, 3);
		struct kp_raw_reader r;
		struct kp_raw_record record;

		cr_assert_eq(read_one(&f, &r, &record), KP_RAW_RECORD);
		memcpy(f.data + 48, bad[i], 8);
		cr_assert_lt((int)read_one(&f, &r, &record), 0);
		free(f.data);
	}
}

/* More than 64 bits would be read as something else than what is there. */
Test(rawfile, number_of_more_than_64_bits_is_not_taken)
{
	static const uint64_t pc[] = { INT64_MIN };
	struct file f = one_sample(pc, 1);
	struct kp_raw_reader r;
	struct kp_raw_record record;

	cr_assert_eq(f.data[48 + 9], 1);
	cr_assert_eq(read_one(&f, &r, &record), KP_RAW_RECORD);
	f.data[48 + 9] = 2;
	cr_assert_lt((int)read_one(&f, &r, &record), 0);
	free(f.data);
}

Test(rawfile, version_1_has_plain_frames)
{
	static const uint64_t pc[] = { 1, UINT64_MAX, 0x401000 };
	struct file f = one_sample(pc, 3);
	struct kp_raw_reader r;
	struct kp_raw_record record;

	f.data = realloc(f.data, 16 + 32 + sizeof(pc));
	memcpy(f.data + 48, pc, sizeof(pc));
	f.size = 16 + 32 + sizeof(pc);
	f.data[8] = 1;
	f.data[16 + 4] = 32 + sizeof(pc);
	cr_assert_eq(read_one(&f, &r, &record), KP_RAW_RECORD);
	cr_assert_arr_eq(record.sample.pc, pc, sizeof(pc));
	f.data[16 + 24] = 2; /* depth */
	cr_assert_lt((int)read_one(&f, &r, &record), 0);
	free(f.data);
}

Test(rawfile, same_records_give_the_same_bytes)
{
	size_t bounds[RECORDS + 1];
	struct file a = build(bounds), b = build(bounds);

	cr_assert_eq(a.size, b.size);
	cr_assert_arr_eq(a.data, b.data, a.size);
	cr_assert_eq(a.calls, 1 + RECORDS); /* a small record is one write */
	free(a.data);
	free(b.data);
}

Test(rawfile, every_prefix_is_readable)
{
	size_t bounds[RECORDS + 1];
	struct file f = build(bounds);

	for (size_t size = 0; size < f.size; size++) {
		uint8_t *cut = malloc(size ? size : 1);
		struct kp_raw_reader r;
		struct kp_raw_record record;
		struct kp_err err = { 0 };
		int i = 0;

		memcpy(cut, f.data, size);
		if (size < bounds[0]) {
			cr_assert_eq(kp_raw_reader_init(&r, cut, size, "f", &err), -KP_EBADDATA);
			cr_assert_neq(err.text[0], '\0');
			free(cut);
			continue;
		}
		cr_assert_eq(kp_raw_reader_init(&r, cut, size, "f", &err), 0);
		for (; bounds[i + 1] <= size; i++) {
			cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
			expect_record(&record, i);
		}
		cr_assert_eq(kp_raw_read(&r, &record, &err),
			     size == bounds[i] ? KP_RAW_EOF : KP_RAW_CUT);
		cr_assert_eq(r.offset, bounds[i]);
		free(cut);
	}
	free(f.data);
}

/* Reads all that can be read; checks that the first `whole` records are there. */
static unsigned read_damaged(const uint8_t *data, size_t size, int whole)
{
	struct kp_raw_reader r;
	struct kp_raw_record record;
	struct kp_err err = { 0 };
	unsigned sum = 0;
	int result, i = 0;

	if (kp_raw_reader_init(&r, data, size, "f", &err) < 0) {
		cr_assert_eq(whole, 0);
		cr_assert_neq(err.text[0], '\0');
		return 0;
	}
	while ((result = kp_raw_read(&r, &record, &err)) == KP_RAW_RECORD) {
		if (i < whole)
			expect_record(&record, i);
		sum += touch(&record);
		i++;
		cr_assert_leq(i, (int)(size / 8));
	}
	cr_assert_leq(whole, i);
	if (result < 0) {
		cr_assert_eq(result, -KP_EBADDATA);
		cr_assert_not_null(strstr(err.text, "f: offset "));
	}
	return sum;
}

Test(rawfile, damaged_byte_loses_nothing_before_it)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x07, 0x08, 0x10, 0x7f, 0x80, 0xff };
	size_t bounds[RECORDS + 1];
	struct file f = build(bounds);
	unsigned sum = 0;

	for (size_t at = 0; at < f.size; at++) {
		uint8_t good = f.data[at];
		int whole = 0;

		while (whole < RECORDS && bounds[whole + 1] <= at)
			whole++;
		for (size_t i = 0; i < sizeof(values); i++) {
			f.data[at] = values[i];
			sum += read_damaged(f.data, f.size, whole);
		}
		for (int bit = 0; bit < 8; bit++) {
			f.data[at] = good ^ (uint8_t)(1u << bit);
			sum += read_damaged(f.data, f.size, whole);
		}
		f.data[at] = good;
	}
	cr_assert_neq(sum, 0);
	free(f.data);
}

/* ---- single rules ---- */

/* The message that reading a file of one damaged record gives; NULL if it is read without. */
static const char *complaint(const struct file *f, size_t skip)
{
	static struct kp_err err;
	struct kp_raw_reader r;
	struct kp_raw_record record;

	cr_assert_eq(kp_raw_reader_init(&r, f->data, f->size, "f", &err), 0);
	r.offset = skip;
	if (kp_raw_read(&r, &record, &err) >= 0)
		return NULL;
	cr_assert_eq(r.offset, skip);
	return err.text;
}

static void set32(struct file *f, size_t at, uint32_t value)
{
	memcpy(f->data + at, &value, sizeof(value));
}

Test(rawfile, names_file_offset_and_type_of_a_damaged_record)
{
	size_t b[RECORDS + 1];
	struct file f = build(b);

	set32(&f, b[3] + 4, 13);
	cr_assert_str_eq(complaint(&f, b[3]),
			 "f: offset 192: record of type 4 (MODULE) with a size of 13");
	free(f.data);
	f = build(b);
	set32(&f, b[1] + 16, 1000); /* where comm lies */
	cr_assert_str_eq(complaint(&f, b[1]),
			 "f: offset 104: PROCESS record: a string of it lies outside of it");
	free(f.data);
}

Test(rawfile, takes_no_string_outside_of_its_record)
{
	static const uint32_t places[][2] = {
		{ 0, 5 }, /* over the head */
		{ 31, 1 }, /* over the fixed part */
		{ 32, 1000 },
		{ 56, 1 }, /* right behind the record */
		{ UINT32_MAX, 1 },
		{ UINT32_MAX, UINT32_MAX },
		{ 40, UINT32_MAX - 39 },
	};
	size_t b[RECORDS + 1];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct file f = build(b);

		cr_assert_eq(b[2] - b[1], 56);
		set32(&f, b[1] + 16, places[i][0]);
		set32(&f, b[1] + 20, places[i][1]);
		cr_assert_not_null(complaint(&f, b[1]));
		free(f.data);
	}
}

Test(rawfile, takes_no_record_with_senseless_values)
{
	/* record, offset in it, value */
	static const uint32_t values[][3] = {
		{ 0, 24, 0 }, /* SESSION depth */
		{ 0, 24, KP_DEPTH_MAX + 1 },
		{ 0, 28, 4 }, /* mode */
		{ 3, 20, 1 }, /* MODULE start, high half: after its end */
		{ 5, 8, KP_SOURCE_LAST + 1 }, /* CLOCK source */
		{ 5, 24, 3 }, /* kernel */
		{ 7, 24, 5 | KP_SOURCE_TIMER << 16 }, /* SAMPLE depth is not its size's */
		{ 7, 24, 4 | (uint32_t)(KP_SOURCE_LAST + 1) << 16 }, /* source */
		{ 7, 0, KP_RAW_SAMPLE | (KP_HOW_ALL + 1) << 16 }, /* flags */
		{ 7, 24, 4 | KP_SOURCE_TIMER << 16 | (uint32_t)KP_WALK_END_COUNT << 24 },
		{ 9, 48, 0 }, /* END why */
		{ 9, 48, KP_RAW_END_HANDLER + 1 },
		{ 4, 0, KP_RAW_IMAGE | 1u << 16 }, /* flags */
		{ 6, 0, KP_RAW_LOST }, /* TIME is too short for a LOST */
		{ 8, 0, KP_RAW_TIME }, /* and LOST too long for a TIME */
	};
	size_t b[RECORDS + 1];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct file f = build(b);

		set32(&f, b[values[i][0]] + values[i][1], values[i][2]);
		cr_assert_not_null(complaint(&f, b[values[i][0]]));
		free(f.data);
	}
}

Test(rawfile, writes_nothing_that_it_would_not_read)
{
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_raw_sample s = sample;
	struct kp_raw_module m = module;
	struct kp_err err;

	s.depth = 0;
	cr_assert_eq(kp_raw_put_sample(&w, &s, &err), -KP_EBADDATA);
	s.depth = KP_DEPTH_MAX + 1;
	cr_assert_eq(kp_raw_put_sample(&w, &s, &err), -KP_EBADDATA);
	m.end = m.start;
	cr_assert_eq(kp_raw_put_module(&w, &m, &err), -KP_EBADDATA);
	cr_assert_str_eq(err.text, "a MODULE record cannot be written: it ends before it starts");
	cr_assert_eq(f.size, 0);
}

Test(rawfile, skips_records_of_an_unknown_type)
{
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_raw_head unknown[3] = { { .type = 999, .flags = 7, .size = sizeof(unknown) } };
	struct kp_raw_reader r;
	struct kp_raw_record record;
	struct kp_err err;

	kp_raw_put_header(&w, &err);
	write_bytes(&f, unknown, sizeof(unknown), &err);
	kp_raw_put_time(&w, &moment, &err);
	write_bytes(&f, unknown, sizeof(unknown), &err);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), 0);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(record.type, KP_RAW_TIME);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_EOF);
	free(f.data);
}

Test(rawfile, says_what_is_wrong_with_the_file_header)
{
	size_t b[RECORDS + 1];
	struct file f = build(b);
	struct kp_raw_reader r;
	struct kp_err err;

	cr_assert_eq(kp_raw_reader_init(&r, f.data, 15, "f", &err), -KP_EBADDATA);
	cr_assert_str_eq(err.text, "f: not a raw profile of kitprof: only 15 bytes long");
	set32(&f, 8, 3);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), -KP_EBADDATA);
	cr_assert_str_eq(err.text,
			 "f: raw profile of format version 3; this kitprof reads versions 1 to 2");
	set32(&f, 8, 1);
	set32(&f, 12, 8);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), -KP_EBADDATA);
	set32(&f, 12, (uint32_t)f.size + 8);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), -KP_EBADDATA);
	f.data[0] = 'k';
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), -KP_EBADDATA);
	cr_assert_str_eq(err.text,
			 "f: not a raw profile of kitprof: does not start with \"KITPROF\"");
	free(f.data);
}

Test(rawfile, cuts_strings_that_are_too_long)
{
	size_t long_bytes = KP_RAW_RECORD_MAX + 1000;
	char *text = malloc(long_bytes + 1);
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_raw_string big = { .text = text, .len = (uint32_t)long_bytes };
	struct kp_raw_thread t = { .pid = 1, .tid = 1, .comm = big };
	struct kp_raw_image i = { .path = big, .bytes = big };
	struct kp_raw_reader r;
	struct kp_raw_record record;
	struct kp_err err;

	memset(text, 'x', long_bytes);
	text[long_bytes] = '\0';
	cr_assert_eq(kp_raw_string(text).len, KP_RAW_STRING_MAX);
	kp_raw_put_header(&w, &err);
	cr_assert_eq(kp_raw_put_thread(&w, &t, &err), 0);
	cr_assert_eq(kp_raw_put_image(&w, &i, &err), 0);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), 0);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(record.thread.comm.len, KP_RAW_STRING_MAX);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(record.image.path.len, KP_RAW_STRING_MAX);
	cr_assert_eq(record.image.bytes.len, KP_RAW_RECORD_MAX - 24 - KP_RAW_STRING_MAX);
	cr_assert_arr_eq(record.image.bytes.text, text, record.image.bytes.len);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_EOF);
	free(text);
	free(f.data);
}

Test(rawfile, empty_strings_are_read_back_empty)
{
	struct file f = { 0 };
	struct kp_raw_writer w = writer(&f);
	struct kp_raw_process p = { .pid = 1, .comm = kp_raw_string(NULL) };
	struct kp_raw_reader r;
	struct kp_raw_record record;
	struct kp_err err;

	kp_raw_put_header(&w, &err);
	cr_assert_eq(kp_raw_put_process(&w, &p, &err), 0);
	cr_assert_eq(kp_raw_reader_init(&r, f.data, f.size, "f", &err), 0);
	cr_assert_eq(kp_raw_read(&r, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(record.process.comm.len, 0);
	cr_assert_eq(record.process.exe.len, 0);
	free(f.data);
}

static int refuse(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	(void)data;
	(void)size;
	++*(int *)ctx;
	return kp_fail(err, KP_ESYSTEM, "disk full");
}

Test(rawfile, passes_a_failed_write_on_and_writes_no_more_of_the_record)
{
	int calls = 0;
	struct kp_raw_writer w = { .write = refuse, .ctx = &calls };
	char *text = malloc(KP_RAW_STRING_MAX);
	struct kp_raw_thread t = { .comm = { .text = text, .len = KP_RAW_STRING_MAX } };
	struct kp_err err;

	memset(text, 'x', KP_RAW_STRING_MAX);
	cr_assert_eq(kp_raw_put_header(&w, &err), -KP_ESYSTEM);
	cr_assert_eq(kp_raw_put_thread(&w, &t, &err), -KP_ESYSTEM);
	cr_assert_eq(calls, 2);
	cr_assert_str_eq(err.text, "disk full");
	free(text);
}
