/*
 * The ring in one thread: what is delivered, what is lost and how it is counted, and a target that
 * scribbles over the shared memory. Writers that die or come late are played by hand, from the
 * states that proto/ring.c describes. Orders of events: ring_model.c; real threads: ring_threads.c.
 */
#include "tests/support/test.h"

#include "common/unwind/walk.h"
#include "proto/ring.h"

#include <stdlib.h>
#include <string.h>

#define CELLS 4u
#define DEPTH 3u
#define HOW(origin) (((origin) + 2) * 256) /* no slice */

enum { WRITING = 1, FULL = 2, RETIRED = 3 };

struct fixture {
	struct kp_ring *ring;
	struct kp_ring_reader reader;
	union {
		struct kp_ring_record record;
		uint64_t room[2 + DEPTH];
	} got;
};

static struct fixture set_up(uint64_t ticket_max)
{
	size_t bytes = kp_ring_bytes(CELLS, DEPTH);
	struct fixture f = { .ring = aligned_alloc(KP_RING_CELL_ALIGN, bytes) };

	cr_assert_not_null(f.ring);
	memset(f.ring, 0, bytes);
	kp_ring_format(f.ring, CELLS, DEPTH, ticket_max);
	kp_ring_reader_init(&f.reader, f.ring, CELLS, DEPTH);
	return f;
}

static void tear_down(struct fixture *f)
{
	free(f->ring);
}

static struct kp_ring_cell *cell(struct fixture *f, uint64_t ticket)
{
	return (struct kp_ring_cell *)((char *)f->ring + KP_RING_HEAD_BYTES +
				       ticket % CELLS * kp_ring_cell_bytes(DEPTH));
}

static void fill(struct kp_ring_record *record, uint32_t origin)
{
	record->origin = origin;
	record->overrun = origin + 1;
	record->depth = DEPTH;
	record->source = KP_SOURCE_TIMER;
	record->walk_end = KP_WALK_ROOT;
	record->how = HOW(origin);
	for (uint32_t i = 0; i < DEPTH; i++)
		record->pc[i] = origin * UINT64_C(1000) + i;
}

/* Writes a whole record. Returns whether there was room. */
static int put(struct fixture *f, uint32_t origin)
{
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(f->ring, &ticket);

	if (!record)
		return 0;
	fill(record, origin);
	kp_ring_publish(f->ring, ticket);
	return 1;
}

/* The ring holds that record next, whole. */
static void expect(struct fixture *f, uint32_t origin, int give_up)
{
	cr_assert_eq(kp_ring_read(&f->reader, &f->got.record, give_up), KP_RING_RECORD);
	cr_assert_eq(f->got.record.origin, origin);
	cr_assert_eq(f->got.record.overrun, origin + 1);
	cr_assert_eq(f->got.record.depth, DEPTH);
	cr_assert_eq(f->got.record.source, KP_SOURCE_TIMER);
	cr_assert_eq(f->got.record.walk_end, KP_WALK_ROOT);
	cr_assert_eq(f->got.record.how, HOW(origin));
	for (uint32_t i = 0; i < DEPTH; i++)
		cr_assert_eq(f->got.record.pc[i], origin * UINT64_C(1000) + i);
}

static void expect_nothing(struct fixture *f, enum kp_ring_result why, int give_up)
{
	cr_assert_eq(kp_ring_read(&f->reader, &f->got.record, give_up), why);
}

/* Checks that the account adds up, and its parts. */
static void expect_counts(struct fixture *f, struct kp_ring_counts want)
{
	struct kp_ring_counts c;

	kp_ring_count(&f->reader, &c);
	cr_assert_eq(c.kept, want.kept);
	cr_assert_eq(c.dropped_full, want.dropped_full);
	cr_assert_eq(c.dropped_cap, want.dropped_cap);
	cr_assert_eq(c.abandoned, want.abandoned);
	cr_assert_eq(c.bad, want.bad);
	cr_assert_eq(c.dropped, c.dropped_full + c.dropped_cap + c.abandoned + c.bad);
	cr_assert_eq(c.taken, c.kept + c.dropped);
}

Test(ring, cells_are_aligned_and_hold_the_depth)
{
	cr_assert_eq(kp_ring_cell_bytes(1), 64);
	cr_assert_eq(kp_ring_cell_bytes(5), 64);
	cr_assert_eq(kp_ring_cell_bytes(6), 128);
	cr_assert_eq(kp_ring_cell_bytes(KP_DEPTH_MAX), 8256);
	cr_assert_eq(kp_ring_bytes(8, 6), KP_RING_HEAD_BYTES + 8 * 128);
}

Test(ring, is_empty_at_first)
{
	struct fixture f = set_up(100);

	expect_nothing(&f, KP_RING_EMPTY, 0);
	expect_nothing(&f, KP_RING_EMPTY, 1);
	cr_assert_eq(kp_ring_read_late(&f.reader, &f.got.record), KP_RING_EMPTY);
	expect_counts(&f, (struct kp_ring_counts){ 0 });
	tear_down(&f);
}

Test(ring, delivers_in_order_over_many_laps)
{
	struct fixture f = set_up(1000);
	uint32_t next = 0;

	for (uint32_t i = 0; i < 100; i++) {
		cr_assert(put(&f, i));
		if (i % 3 != 2)
			continue;
		for (; next <= i; next++)
			expect(&f, next, 0);
		expect_nothing(&f, KP_RING_EMPTY, 0);
	}
	expect(&f, next, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 100 });
	tear_down(&f);
}

Test(ring, drops_newest_when_full)
{
	struct fixture f = set_up(100);

	for (uint32_t i = 0; i < CELLS; i++)
		cr_assert(put(&f, i));
	cr_assert_not(put(&f, 77));
	cr_assert_not(put(&f, 78));
	for (uint32_t i = 0; i < CELLS; i++)
		expect(&f, i, 0);
	cr_assert(put(&f, 5));
	expect(&f, 5, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = CELLS + 1, .dropped_full = 2 });
	tear_down(&f);
}

Test(ring, hands_out_no_more_tickets_than_the_cap)
{
	struct fixture f = set_up(2);

	cr_assert(put(&f, 0));
	expect(&f, 0, 0);
	cr_assert(put(&f, 1));
	cr_assert_not(put(&f, 2));
	expect(&f, 1, 0);
	cr_assert_not(put(&f, 3));
	expect_counts(&f, (struct kp_ring_counts){ .kept = 2, .dropped_cap = 2 });
	tear_down(&f);
}

Test(ring, waits_for_a_writer_that_has_not_finished)
{
	struct fixture f = set_up(100);
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(f.ring, &ticket);

	cr_assert(put(&f, 1));
	expect_nothing(&f, KP_RING_PENDING, 0);
	fill(record, 0);
	kp_ring_publish(f.ring, ticket);
	expect(&f, 0, 0);
	expect(&f, 1, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 2 });
	tear_down(&f);
}

Test(ring, gives_up_on_a_writer_that_died_while_writing)
{
	struct fixture f = set_up(100);
	uint64_t ticket;

	cr_assert_not_null(kp_ring_claim(f.ring, &ticket));
	cr_assert(put(&f, 1));
	expect(&f, 1, 1);
	expect_nothing(&f, KP_RING_EMPTY, 1);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 1, .abandoned = 1 });
	tear_down(&f);
}

Test(ring, dead_writer_costs_one_cell_and_no_more_waiting)
{
	struct fixture f = set_up(100);
	uint64_t ticket;

	cr_assert_not_null(kp_ring_claim(f.ring, &ticket));
	expect_nothing(&f, KP_RING_EMPTY, 1);
	for (uint32_t lap = 0; lap < 3; lap++) {
		for (uint32_t i = 1; i < CELLS; i++)
			cr_assert(put(&f, lap * CELLS + i));
		cr_assert_not(put(&f, 77));
		for (uint32_t i = 1; i < CELLS; i++)
			expect(&f, lap * CELLS + i, 0);
		expect_nothing(&f, KP_RING_EMPTY, 0);
	}
	expect_counts(&f, (struct kp_ring_counts){ .kept = 9, .abandoned = 4 });
	tear_down(&f);
}

Test(ring, gives_up_on_a_writer_that_died_before_its_cell)
{
	struct fixture f = set_up(100);

	f.ring->head++; /* takes a ticket and dies */
	cr_assert(put(&f, 1));
	expect_nothing(&f, KP_RING_PENDING, 0);
	expect(&f, 1, 1);
	cr_assert(put(&f, 2));
	cr_assert(put(&f, 3));
	cr_assert(put(&f, 4)); /* in the dead writer's cell */
	for (uint32_t i = 2; i <= 4; i++)
		expect(&f, i, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 4, .abandoned = 1 });
	tear_down(&f);
}

Test(ring, delivers_a_late_record_a_lap_later)
{
	struct fixture f = set_up(100);
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(f.ring, &ticket);

	expect_nothing(&f, KP_RING_EMPTY, 1);
	fill(record, 0);
	kp_ring_publish(f.ring, ticket);
	for (uint32_t i = 1; i < CELLS; i++) {
		cr_assert(put(&f, i));
		expect(&f, i, 0);
	}
	cr_assert_not(put(&f, 77)); /* the late record is in its way */
	expect(&f, 0, 0);
	cr_assert_eq(f.reader.late, 1);
	expect_nothing(&f, KP_RING_PENDING, 0); /* nobody knows that 77's writer is not to come */
	expect_nothing(&f, KP_RING_EMPTY, 1);
	expect_counts(&f, (struct kp_ring_counts){ .kept = CELLS, .abandoned = 1 });
	cr_assert_eq(f.reader.abandoned, 2);
	tear_down(&f);
}

Test(ring, hands_out_late_records_at_the_end)
{
	struct fixture f = set_up(100);
	uint64_t ticket[2];
	struct kp_ring_record *record[2];

	for (int i = 0; i < 2; i++)
		record[i] = kp_ring_claim(f.ring, &ticket[i]);
	expect_nothing(&f, KP_RING_EMPTY, 1);
	for (uint32_t i = 0; i < 2; i++) {
		fill(record[i], i);
		kp_ring_publish(f.ring, ticket[i]);
	}
	expect_nothing(&f, KP_RING_EMPTY, 1);
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(kp_ring_read_late(&f.reader, &f.got.record), KP_RING_RECORD);
		cr_assert_eq(f.got.record.origin, i);
	}
	cr_assert_eq(kp_ring_read_late(&f.reader, &f.got.record), KP_RING_EMPTY);
	cr_assert_eq(f.reader.late, 2);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 2 });
	tear_down(&f);
}

Test(ring, late_writer_takes_a_free_cell_like_any_other)
{
	struct fixture f = set_up(100);

	f.ring->head++; /* has ticket 0 and sleeps before its cell */
	expect_nothing(&f, KP_RING_EMPTY, 1);
	cell(&f, 0)->state = WRITING; /* wakes up and wins the cell */
	for (uint32_t i = 1; i < CELLS; i++) {
		cr_assert(put(&f, i));
		expect(&f, i, 0);
	}
	cr_assert_not(put(&f, 77));
	expect_nothing(&f, KP_RING_PENDING, 0);
	expect_nothing(&f, KP_RING_EMPTY, 1);
	cr_assert_eq(cell(&f, 0)->state, RETIRED); /* still ticket 0's */
	fill(&cell(&f, 0)->record, 0);
	kp_ring_publish(f.ring, 0);
	cr_assert_eq(kp_ring_read_late(&f.reader, &f.got.record), KP_RING_RECORD);
	cr_assert_eq(f.got.record.origin, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = CELLS, .abandoned = 1 });
	tear_down(&f);
}

Test(ring, counts_records_that_make_no_sense)
{
	struct fixture f = set_up(100);

	for (int i = 0; i < 5; i++) {
		uint64_t ticket;
		struct kp_ring_record *record = kp_ring_claim(f.ring, &ticket);

		fill(record, 0);
		if (i == 0)
			record->depth = 0;
		else if (i == 1)
			record->depth = DEPTH + 1;
		else if (i == 2)
			record->source = 0;
		else if (i == 3)
			record->source = KP_SOURCE_EVENT + 1;
		else
			record->walk_end = KP_WALK_END_COUNT;
		kp_ring_publish(f.ring, ticket);
		expect_nothing(&f, KP_RING_EMPTY, 0);
	}
	cr_assert(put(&f, 9));
	expect(&f, 9, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 1, .bad = 5 });
	tear_down(&f);
}

#define WORDS (KP_DEPTH_MAX + KP_SLICE_HEAD_WORDS)

/* Whether a record of that depth is taken for one, in a ring whose cells are long enough. */
static bool is_taken(struct fixture *f, uint32_t depth, uint32_t how)
{
	static uint64_t room[2 + WORDS];
	struct kp_ring_record *got = (struct kp_ring_record *)(void *)room, *record;
	uint64_t ticket, bad = f->reader.bad;

	record = kp_ring_claim(f->ring, &ticket);
	cr_assert_not_null(record);
	fill(record, 0);
	record->depth = (uint16_t)depth;
	record->how = how;
	kp_ring_publish(f->ring, ticket);
	if (kp_ring_read(&f->reader, got, 0) == KP_RING_RECORD)
		return got->depth == depth && got->how == how;
	cr_assert_eq(f->reader.bad, bad + 1);
	return false;
}

Test(ring, slices_may_be_longer_than_stacks_that_were_walked)
{
	size_t bytes = kp_ring_bytes(CELLS, WORDS);
	struct fixture f = { .ring = aligned_alloc(KP_RING_CELL_ALIGN, (bytes + 63) / 64 * 64) };

	cr_assert_not_null(f.ring);
	memset(f.ring, 0, bytes);
	kp_ring_format(f.ring, CELLS, WORDS, 100);
	kp_ring_reader_init(&f.reader, f.ring, CELLS, WORDS);
	cr_assert(is_taken(&f, KP_DEPTH_MAX, KP_HOW_FP));
	cr_assert_not(is_taken(&f, KP_DEPTH_MAX + 1, KP_HOW_FP));
	cr_assert(is_taken(&f, KP_DEPTH_MAX + 1, KP_HOW_SLICE));
	cr_assert(is_taken(&f, WORDS, KP_HOW_SLICE | KP_HOW_CUT));
	cr_assert_not(is_taken(&f, WORDS + 1, KP_HOW_SLICE));
	cr_assert(is_taken(&f, KP_SLICE_HEAD_WORDS, KP_HOW_SLICE));
	cr_assert_not(is_taken(&f, KP_SLICE_HEAD_WORDS - 1, KP_HOW_SLICE));
	tear_down(&f);
}

Test(ring, late_nonsense_is_bad_and_not_abandoned)
{
	struct fixture f = set_up(100);
	uint64_t ticket;
	struct kp_ring_record *record = kp_ring_claim(f.ring, &ticket);

	expect_nothing(&f, KP_RING_EMPTY, 1);
	record->depth = 0;
	kp_ring_publish(f.ring, ticket);
	cr_assert_eq(kp_ring_read_late(&f.reader, &f.got.record), KP_RING_EMPTY);
	expect_counts(&f, (struct kp_ring_counts){ .bad = 1 });
	tear_down(&f);
}

Test(ring, account_adds_up_with_every_kind_of_loss)
{
	struct fixture f = set_up(8);
	uint64_t ticket;

	cr_assert(put(&f, 0));
	cr_assert_not_null(kp_ring_claim(f.ring, &ticket)); /* dies */
	cell(&f, 0)->record.depth = 0; /* scribbles */
	cr_assert(put(&f, 2));
	cr_assert(put(&f, 3));
	cr_assert_not(put(&f, 4)); /* full */
	expect(&f, 2, 1);
	expect(&f, 3, 1);
	for (uint32_t i = 4; i < 8; i++)
		cr_assert_eq(put(&f, i), i != 5); /* 5 meets the dead writer */
	cr_assert_not(put(&f, 8)); /* cap */
	expect(&f, 4, 0);
	expect(&f, 6, 0);
	expect(&f, 7, 0);
	expect_nothing(&f, KP_RING_EMPTY, 0);
	expect_counts(
		&f,
		(struct kp_ring_counts){
			.kept = 5, .dropped_full = 1, .dropped_cap = 1, .abandoned = 2, .bad = 1 });
	tear_down(&f);
}

/* ---- the target scribbles over the ring ---- */

static void expect_recovery(uint64_t scribbled_head)
{
	struct fixture f = set_up(UINT64_MAX);

	for (uint32_t i = 0; i < 6; i++) {
		cr_assert(put(&f, i));
		expect(&f, i, 0);
	}
	cr_assert(put(&f, 6));
	cr_assert(put(&f, 7));
	f.ring->head = scribbled_head;
	expect(&f, 6, 0);
	expect(&f, 7, 0);
	cr_assert_eq(f.reader.resyncs, 1);
	expect_nothing(&f, KP_RING_PENDING, 0); /* tickets that nobody has */
	expect_nothing(&f, KP_RING_EMPTY, 1);
	for (uint32_t i = 10; i < 20; i++) {
		cr_assert(put(&f, i));
		expect(&f, i, 0);
	}
	cr_assert_eq(f.reader.resyncs, 1);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 18, .abandoned = 2 });
	tear_down(&f);
}

Test(ring, recovers_when_head_jumps_ahead)
{
	expect_recovery(UINT64_C(1) << 60);
	expect_recovery(6 + CELLS + 1);
	expect_recovery(UINT64_MAX);
}

Test(ring, recovers_when_head_falls_back)
{
	expect_recovery(0);
	expect_recovery(5);
}

Test(ring, recovers_when_tail_is_scribbled)
{
	static const uint64_t tails[] = { 0, UINT64_C(1) << 50, UINT64_MAX };

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		struct fixture f = set_up(100);

		for (uint32_t k = 0; k < 6; k++) {
			cr_assert(put(&f, k));
			expect(&f, k, 0);
		}
		f.ring->tail = tails[i];
		cr_assert_not(put(&f, 6)); /* takes it for full */
		expect_nothing(&f, KP_RING_EMPTY, 0);
		cr_assert(put(&f, 7));
		expect(&f, 7, 0);
		cr_assert_eq(f.reader.resyncs, 1);
		expect_counts(&f, (struct kp_ring_counts){ .kept = 7, .dropped_full = 1 });
		tear_down(&f);
	}
}

Test(ring, survives_any_state_in_a_cell)
{
	static const uint64_t states[] = {
		4,
		WRITING + 4000,
		FULL + 4000,
		RETIRED + 4000,
		UINT64_MAX,
		UINT64_MAX - 1,
		UINT64_MAX - 2,
		UINT64_MAX - 3,
		UINT64_C(1) << 63,
	};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct fixture f = set_up(100);
		struct kp_ring_counts c;

		for (uint32_t k = 0; k < 3; k++)
			cr_assert(put(&f, k));
		cell(&f, 0)->state = states[i];
		while (kp_ring_read(&f.reader, &f.got.record, 1) == KP_RING_RECORD)
			;
		cr_assert_eq(f.reader.tail, 3);
		kp_ring_count(&f.reader, &c);
		cr_assert_eq(c.taken, 3);
		cr_assert_eq(c.taken, c.kept + c.dropped);
		tear_down(&f);
	}
}

Test(ring, reader_keeps_to_its_own_geometry)
{
	struct fixture f = set_up(100);

	cr_assert(put(&f, 0));
	f.ring->cell_count = 1u << 31;
	f.ring->cell_bytes = 1u << 31;
	f.ring->words = KP_DEPTH_MAX;
	f.ring->magic = 0;
	f.ring->tail = UINT64_C(1) << 50;
	expect(&f, 0, 0);
	cr_assert_eq(f.ring->tail, 1);
	expect_nothing(&f, KP_RING_EMPTY, 0);
	expect_counts(&f, (struct kp_ring_counts){ .kept = 1 });
	tear_down(&f);
}

Test(ring, account_adds_up_with_scribbled_counters)
{
	struct fixture f = set_up(100);
	struct kp_ring_counts c;

	cr_assert(put(&f, 0));
	expect(&f, 0, 0);
	f.ring->dropped_full = UINT64_MAX;
	f.ring->dropped_cap = UINT64_MAX;
	kp_ring_count(&f.reader, &c);
	cr_assert_gt(c.taken, c.dropped_full);
	cr_assert_gt(c.taken, c.dropped_cap);
	cr_assert_eq(c.taken, c.kept + c.dropped);
	tear_down(&f);
}

Test(ring, account_adds_up_with_forged_records)
{
	struct fixture f = set_up(100);
	struct kp_ring_counts c;

	f.ring->head = 1;
	for (int i = 0; i < 50; i++) { /* one ticket, and a record in its cell again and again */
		fill(&cell(&f, 0)->record, 0);
		cell(&f, 0)->state = 4000 + FULL;
		expect(&f, 0, 1);
	}
	kp_ring_count(&f.reader, &c);
	cr_assert_eq(c.kept, 50);
	cr_assert_eq(c.taken, c.kept + c.dropped);
	cr_assert_eq(c.abandoned, 0);
	tear_down(&f);
}
