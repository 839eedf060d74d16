/* Unit tests of the way from the ring to the raw profile. Both ends are in memory. */
#include "common/unwind/walk.h"
#include "daemon/drain/drain.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define CELLS 8
#define DEPTH 4

static _Alignas(8) uint8_t file[1 << 20];
static size_t size;
static _Alignas(64) uint8_t memory[64 << 10];
static struct kp_ring *ring = (struct kp_ring *)(void *)memory;
static struct kp_drain drain;
static struct kp_err err;
static int write_result, complete_result;

static int put(void *ctx, const void *data, size_t n, struct kp_err *e)
{
	(void)ctx;
	if (write_result < 0)
		return kp_fail(e, KP_ESYSTEM, "disk full");
	memcpy(file + size, data, n);
	size += n;
	return 0;
}

static struct kp_raw_writer writer = { .write = put };

static uint64_t left;

static int complete(void *ctx, const struct kp_ring_record *record, struct kp_raw_sample *sample,
		    struct kp_err *e)
{
	(void)ctx, (void)e;
	sample->pid = 100;
	sample->tid = record->origin;
	sample->weight_ns = 10 * (1 + (uint64_t)record->overrun);
	return complete_result;
}

static struct kp_drain_options options = {
	.ring = (struct kp_ring *)(void *)memory,
	.cell_count = CELLS,
	.words = DEPTH,
	.writer = &writer,
	.left = &left,
	.complete = complete,
	.arch = &kp_arch_x86_64,
	.depth = DEPTH,
};

static void start(void)
{
	cr_assert_eq(kp_drain_init(&drain, &options, &err), 0);
}

static void begin(void)
{
	cr_assert_leq(kp_ring_bytes(CELLS, DEPTH), sizeof(memory));
	kp_ring_format(ring, CELLS, DEPTH, 1000);
	cr_assert_eq(kp_raw_put_header(&writer, &err), 0);
	left = UINT64_MAX;
	start();
}

/* Claims a place and fills it in; published by the caller. */
static uint64_t claim(uint32_t origin)
{
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(ring, &ticket);

	cr_assert_not_null(record);
	record->origin = origin;
	record->overrun = origin % 3;
	record->depth = 2;
	record->source = KP_SOURCE_TIMER;
	record->walk_end = 0;
	record->how = KP_HOW_FP;
	record->pc[0] = 0x1000 + origin;
	record->pc[1] = 0x2000;
	return ticket;
}

static void sample(uint32_t origin)
{
	kp_ring_publish(ring, claim(origin));
}

/* What is in the file: "T5" for a TIME, a tid for a SAMPLE. */
static const char *content(void)
{
	static char text[512];
	struct kp_raw_reader reader;
	struct kp_raw_record record;

	text[0] = 0;
	cr_assert_eq(kp_raw_reader_init(&reader, file, size, "memory", &err), 0);
	while (kp_raw_read(&reader, &record, &err) == KP_RAW_RECORD) {
		char word[32] = "?";

		if (record.type == KP_RAW_TIME)
			snprintf(word, sizeof(word), "T%u", (unsigned)record.time.elapsed_ns);
		if (record.type == KP_RAW_SAMPLE) {
			cr_assert_eq(record.sample.depth, 2);
			cr_assert_eq(record.sample.pc[0], 0x1000 + record.sample.tid);
			cr_assert_eq(record.sample.weight_ns, 10 * (1 + record.sample.tid % 3));
			snprintf(word, sizeof(word), "%u", record.sample.tid);
		}
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			 text[0] ? " " : "", word);
	}
	return text;
}

Test(drain, samples_come_in_order_behind_the_time)
{
	begin();
	cr_assert_eq(kp_drain_run(&drain, 4, false, &err), 0);
	cr_assert_str_eq(content(), "");
	sample(7);
	sample(8);
	cr_assert_eq(kp_drain_run(&drain, 5, false, &err), 0);
	sample(9);
	cr_assert_eq(kp_drain_run(&drain, 6, false, &err), 0);
	cr_assert_eq(kp_drain_run(&drain, 7, false, &err), 0);
	cr_assert_str_eq(content(), "T5 7 8 T6 9");
	cr_assert_eq(drain.overruns, 7 % 3 + 8 % 3 + 9 % 3);
}

Test(drain, unfinished_writer_is_waited_for)
{
	uint64_t ticket;

	begin();
	sample(1);
	ticket = claim(2);
	sample(3);
	cr_assert_eq(kp_drain_run(&drain, 1, false, &err), 0);
	cr_assert_str_eq(content(), "T1 1");
	kp_ring_publish(ring, ticket);
	cr_assert_eq(kp_drain_run(&drain, 2, false, &err), 0);
	cr_assert_str_eq(content(), "T1 1 T2 2 3");
}

Test(drain, at_the_end_an_unfinished_writer_is_given_up_and_counted)
{
	struct kp_ring_counts counts;

	begin();
	claim(1);
	sample(2);
	claim(3);
	sample(4);
	cr_assert_eq(kp_drain_run(&drain, 1, true, &err), 0);
	cr_assert_str_eq(content(), "T1 2 4");
	kp_ring_count(&drain.reader, &counts);
	cr_assert_eq(counts.taken, 4);
	cr_assert_eq(counts.kept, 2);
	cr_assert_eq(counts.abandoned, 2);
}

Test(drain, writer_that_was_given_up_and_finished_is_taken_at_the_end)
{
	struct kp_ring_counts counts;
	uint64_t ticket;

	begin();
	ticket = claim(2);
	drain.pending_since_ns = 1; /* it has been waited for since the machine started */
	sample(3);
	cr_assert_eq(kp_drain_run(&drain, 1, false, &err), 0);
	cr_assert_str_eq(content(), "T1 3");
	kp_ring_publish(ring, ticket);
	cr_assert_eq(kp_drain_run(&drain, 2, true, &err), 0);
	kp_ring_count(&drain.reader, &counts);
	cr_assert_eq(counts.kept, 2);
	cr_assert_eq(counts.abandoned, 0);
	cr_assert_not_null(strstr(content(), " 2"));
}

Test(drain, one_turn_takes_one_ring_at_most)
{
	begin();
	for (uint32_t i = 0; i < CELLS; i++)
		sample(i);
	/* Somebody who forges records faster than they are read. */
	cr_assert_eq(kp_drain_run(&drain, 1, false, &err), 0);
	cr_assert_eq(drain.reader.kept, CELLS);
	for (int turn = 0; turn < 5; turn++) {
		for (uint32_t i = 0; i < CELLS / 2; i++)
			sample(i);
		cr_assert_eq(kp_drain_run(&drain, 1, false, &err), 0);
	}
	cr_assert_eq(drain.reader.kept, CELLS + 5 * CELLS / 2);
}

Test(drain, errors_are_passed_up)
{
	begin();
	sample(1);
	complete_result = -KP_ENOMEM;
	cr_assert_eq(kp_drain_run(&drain, 1, false, &err), -KP_ENOMEM);
	complete_result = 0;
	sample(2);
	write_result = -1;
	cr_assert_eq(kp_drain_run(&drain, 1, false, &err), -KP_ESYSTEM);
	cr_assert_str_eq(err.text, "disk full");
}

/* ---- slices ---- */

#define SLICE_WORDS (KP_SLICE_HEAD_WORDS + 4)
#define SP UINT64_C(0x7ffd00001000)

static uint64_t asked_for;
static uint32_t asked_origin;

/* Every function has 16 bytes of stack; what returns to 0x2000 is the outermost. */
static int find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	cr_assert_eq(ctx, &asked_origin);
	asked_for = pc;
	*ret = (struct kp_table_rule){
		.cfa = KP_CFA_SP, .cfa_off = 16, .ra = KP_REG_CFA, .ra_off = -8
	};
	if (pc == 0x2000 - 1)
		ret->cfa = KP_CFA_STOP;
	return 0;
}

static kp_find_rule_fn rules(void *ctx, const struct kp_ring_record *record, void **ret_ctx)
{
	(void)ctx;
	asked_origin = record->origin;
	*ret_ctx = &asked_origin;
	return find_rule;
}

static void slice_sample(uint32_t origin)
{
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(ring, &ticket);
	struct kp_ring_slice *slice;

	cr_assert_not_null(record);
	slice = (struct kp_ring_slice *)(void *)record->pc;
	memset(slice, 0, SLICE_WORDS * 8);
	slice->pc = 0x1000 + origin;
	slice->sp = SP;
	slice->stack[1] = 0x2000;
	record->origin = origin;
	record->overrun = origin % 3;
	record->depth = SLICE_WORDS;
	record->source = KP_SOURCE_TIMER;
	record->walk_end = KP_WALK_ON;
	record->how = KP_HOW_SLICE | KP_HOW_CUT;
	kp_ring_publish(ring, ticket);
}

Test(drain, slice_is_walked_and_written_like_any_sample)
{
	struct kp_raw_reader reader;
	struct kp_raw_record record;
	size_t before;

	options.words = SLICE_WORDS;
	options.rules = rules;
	kp_ring_format(ring, CELLS, SLICE_WORDS, 1000);
	cr_assert_eq(kp_raw_put_header(&writer, &err), 0);
	left = 2;
	start();
	before = size;
	slice_sample(7);
	cr_assert_eq(kp_drain_run(&drain, 5, false, &err), 0);
	cr_assert_str_eq(content(), "T5 7");
	cr_assert_eq(asked_origin, 7);
	cr_assert_leq(size - before, 100);
	slice_sample(8);
	slice_sample(9);
	cr_assert_eq(kp_drain_run(&drain, 6, false, &err), 0);
	cr_assert_str_eq(content(), "T5 7 T6 8");
	cr_assert_eq(drain.over_cap, 1);

	cr_assert_eq(kp_raw_reader_init(&reader, file, size, "memory", &err), 0);
	while (kp_raw_read(&reader, &record, &err) == KP_RAW_RECORD) {
		if (record.type != KP_RAW_SAMPLE)
			continue;
		cr_assert_eq(record.sample.how, KP_HOW_SLICE | KP_HOW_TABLE);
		cr_assert_eq(record.sample.walk_end, KP_WALK_OUTERMOST);
	}
	kp_drain_deinit(&drain);
}

Test(drain, slice_without_tables_is_walked_by_frame_pointer)
{
	struct kp_raw_reader reader;
	struct kp_raw_record record;

	options.words = SLICE_WORDS;
	kp_ring_format(ring, CELLS, SLICE_WORDS, 1000);
	cr_assert_eq(kp_raw_put_header(&writer, &err), 0);
	left = 2;
	start();
	slice_sample(7);
	cr_assert_eq(kp_drain_run(&drain, 5, false, &err), 0);
	cr_assert_eq(kp_raw_reader_init(&reader, file, size, "memory", &err), 0);
	cr_assert_eq(kp_raw_read(&reader, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(kp_raw_read(&reader, &record, &err), KP_RAW_RECORD);
	cr_assert_eq(record.type, KP_RAW_SAMPLE);
	cr_assert_eq(record.sample.depth, 1);
	cr_assert_eq(record.sample.walk_end, KP_WALK_ROOT);
	cr_assert_eq(record.sample.how, KP_HOW_SLICE | KP_HOW_FP);
	kp_drain_deinit(&drain);
}

Test(drain, samples_of_the_daemon_itself_are_counted_and_written_likewise)
{
	uint64_t room[sizeof(struct kp_ring_record) / 8 + 2];
	struct kp_ring_record *own = (struct kp_ring_record *)(void *)room;
	struct kp_ring_counts counts;

	*own = (struct kp_ring_record){
		.origin = 7, .overrun = 7 % 3, .depth = 2, .source = KP_SOURCE_WAIT
	};
	own->pc[0] = 0x1007;
	own->pc[1] = 0x2000;
	begin();
	left = 3;
	sample(1);
	cr_assert_eq(kp_drain_put(&drain, own, 5, &err), 0);
	cr_assert_eq(kp_drain_put(&drain, own, 6, &err), 0);
	cr_assert_eq(kp_drain_run(&drain, 9, true, &err), 0);
	cr_assert_str_eq(content(), "T5 7 7 T9 1");
	/* None is left. */
	cr_assert_eq(kp_drain_put(&drain, own, 9, &err), 0);
	kp_drain_count(&drain, &counts);
	cr_assert_eq(counts.taken, 4);
	cr_assert_eq(counts.kept, 3);
	cr_assert_eq(counts.dropped_cap, 1);
	/* Waiting explains no CPU time, and its overruns are no timer's. */
	cr_assert_eq(drain.overruns, 1);
}
