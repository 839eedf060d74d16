/*
 * Both halves of the ring that carries samples from the target's signal handlers to the daemon.
 * docs/ring.md has the protocol and why it holds. No I/O, no waiting, no memory of its own.
 *
 * The writer half runs in the target's signal handler: no libc, no TLS, no lock, no floating point
 * or vector registers, bounded loops. The reader half runs in the daemon, in one thread, and
 * believes nothing that it reads here: the target can write to all of it at any time.
 *
 * A cell's state is FREE, or says who has it and how far that writer is:
 *
 *	FREE		--CAS, claim-->		WRITING(ticket)		the writer owns the record
 *	WRITING(t)	--store, publish-->	FULL(t)			the reader owns the record
 *	FULL(t)		--store, read-->	FREE
 *	WRITING(t)	--CAS, give up-->	RETIRED(t)		the reader has passed it, but the
 *	RETIRED(t)	--store, publish-->	FULL(t)			writer still owns the record
 */
#include "proto/ring.h"

#include "common/unwind/walk.h"

/*
 * Every access to shared memory goes through these, so that the model test (tests/unit/proto)
 * can include this file with its own and run the actors in every order.
 */
#ifndef ring_load
#define ring_load(p, order) __atomic_load_n((p), (order))
#define ring_store(p, v, order) __atomic_store_n((p), (v), (order))
#define ring_add(p, v, order) ((void)__atomic_fetch_add((p), (v), (order)))
#define ring_cas(p, expected, desired, order)                                                      \
	({                                                                                         \
		uint64_t found = (expected);                                                       \
		__atomic_compare_exchange_n((p), &found, (desired), 0, (order), __ATOMIC_RELAXED); \
	})
/* volatile: read once, whatever the target does to it meanwhile. */
#define ring_data(p) (*(const volatile uint64_t *)(p))
#endif

#define CLAIM_TRIES 64 /* lost races for a ticket until the sample is dropped */

enum cell_kind { FREE = 0, WRITING = 1, FULL = 2, RETIRED = 3 };

static uint64_t cell_state(uint64_t ticket, enum cell_kind kind)
{
	return ticket * 4 + kind;
}

static struct kp_ring_cell *cell_at(struct kp_ring *ring, uint32_t cell_bytes, uint64_t index)
{
	return (struct kp_ring_cell *)((char *)ring + KP_RING_HEAD_BYTES + index * cell_bytes);
}

uint32_t kp_ring_cell_bytes(uint32_t words)
{
	uint32_t bytes = (uint32_t)sizeof(struct kp_ring_cell) + words * 8;

	return (bytes + KP_RING_CELL_ALIGN - 1) / KP_RING_CELL_ALIGN * KP_RING_CELL_ALIGN;
}

size_t kp_ring_bytes(uint32_t cell_count, uint32_t words)
{
	return KP_RING_HEAD_BYTES + (size_t)cell_count * kp_ring_cell_bytes(words);
}

void kp_ring_format(struct kp_ring *ring, uint32_t cell_count, uint32_t words, uint64_t ticket_max)
{
	ring->magic = KP_RING_MAGIC;
	ring->cell_count = cell_count;
	ring->cell_bytes = kp_ring_cell_bytes(words);
	ring->words = words;
	ring->ticket_max = ticket_max;
}

/* ---- writer: runs in the target's signal handler ---- */

static struct kp_ring_cell *writer_cell(struct kp_ring *ring, uint64_t ticket)
{
	return cell_at(ring, ring->cell_bytes, ticket & (ring->cell_count - 1));
}

/* 1 with the next ticket in *ret; 0 when there is none, and the loss is counted. */
static int take_ticket(struct kp_ring *ring, uint64_t *ret)
{
	for (int i = 0; i < CLAIM_TRIES; i++) {
		/* Relaxed: a ticket is a number and publishes nothing; the cell's state does. */
		uint64_t head = ring_load(&ring->head, __ATOMIC_RELAXED);
		/*
		 * Pairs with the store in advance(): who sees that tail sees the cells below it as
		 * the reader left them, not full as they were.
		 */
		uint64_t tail = ring_load(&ring->tail, __ATOMIC_ACQUIRE);

		if (head >= ring->ticket_max) {
			ring_add(&ring->dropped_cap, 1, __ATOMIC_RELAXED);
			return 0;
		}
		if (head - tail >= ring->cell_count) {
			/* Full, or head is older than tail, even below it: then look again. */
			if (ring_load(&ring->head, __ATOMIC_RELAXED) != head)
				continue;
			break;
		}
		/* Relaxed: makes the number ours; what it stands for is claimed at the cell. */
		if (ring_cas(&ring->head, head, head + 1, __ATOMIC_RELAXED)) {
			*ret = head;
			return 1;
		}
	}
	ring_add(&ring->dropped_full, 1, __ATOMIC_RELAXED);
	return 0;
}

struct kp_ring_record *kp_ring_claim(struct kp_ring *ring, uint64_t *ret_ticket)
{
	struct kp_ring_cell *cell;
	uint64_t ticket;

	if (!take_ticket(ring, &ticket))
		return NULL;
	cell = writer_cell(ring, ticket);
	/*
	 * Acquire pairs with the release of FREE in take_record(): the reader's copy is done before
	 * our first write. A cell that is not free belongs to a writer of an earlier lap, whom the
	 * reader has given up on. The ticket then stays empty, and the reader counts it.
	 */
	if (!ring_cas(&cell->state, FREE, cell_state(ticket, WRITING), __ATOMIC_ACQUIRE))
		return NULL;
	*ret_ticket = ticket;
	return &cell->record;
}

void kp_ring_publish(struct kp_ring *ring, uint64_t ticket)
{
	/*
	 * Release publishes the record; pairs with the acquire load of the state in kp_ring_read()
	 * and kp_ring_read_late(). A store and not a CAS: the state is WRITING(ticket) or
	 * RETIRED(ticket), the record is whole and ours in both, and the only other change that
	 * anybody may make to it, WRITING to RETIRED, is a CAS and cannot undo FULL.
	 */
	ring_store(&writer_cell(ring, ticket)->state, cell_state(ticket, FULL), __ATOMIC_RELEASE);
}

/* ---- reader: runs in the daemon ---- */

void kp_ring_reader_init(struct kp_ring_reader *reader, struct kp_ring *ring, uint32_t cell_count,
			 uint32_t words)
{
	reader->ring = ring;
	reader->cell_count = cell_count;
	reader->cell_bytes = kp_ring_cell_bytes(words);
	reader->words = words;
	reader->swept = 0;
	reader->tail = 0;
	reader->kept = 0;
	reader->abandoned = 0;
	reader->late = 0;
	reader->bad = 0;
	reader->resyncs = 0;
}

static struct kp_ring_cell *reader_cell(const struct kp_ring_reader *reader, uint64_t ticket)
{
	return cell_at(reader->ring, reader->cell_bytes, ticket & (reader->cell_count - 1));
}

/* A slice has its head at least, a stack that was walked no more than frames that are written. */
static int has_sane_depth(const struct kp_ring_record *record)
{
	if (record->how & KP_HOW_SLICE)
		return record->depth >= KP_SLICE_HEAD_WORDS;
	return record->depth >= 1 && record->depth <= KP_DEPTH_MAX;
}

static int is_sane(const struct kp_ring_reader *reader, const struct kp_ring_record *record)
{
	return record->depth <= reader->words && has_sane_depth(record) &&
	       record->source >= KP_SOURCE_TIMER && record->source <= KP_SOURCE_EVENT &&
	       record->walk_end < KP_WALK_END_COUNT;
}

/*
 * The words of a full cell's record to ret, each read once; only what was copied is judged.
 * Returns whether it makes sense; if not, ret holds nothing of use.
 */
static int copy_record(const struct kp_ring_reader *reader, const struct kp_ring_record *from,
		       struct kp_ring_record *ret)
{
	union {
		uint64_t word[2];
		struct kp_ring_record record;
	} fixed;
	const uint64_t *source = (const uint64_t *)(const void *)from;

	fixed.word[0] = ring_data(&source[0]);
	fixed.word[1] = ring_data(&source[1]);
	if (!is_sane(reader, &fixed.record))
		return 0;
	ret->origin = fixed.record.origin;
	ret->overrun = fixed.record.overrun;
	ret->depth = fixed.record.depth;
	ret->source = fixed.record.source;
	ret->walk_end = fixed.record.walk_end;
	ret->how = fixed.record.how;
	for (uint32_t i = 0; i < fixed.record.depth; i++)
		ret->pc[i] = ring_data(&from->pc[i]);
	return 1;
}

/* Empties a full cell. Whether *ret now holds a record; a senseless one is counted instead. */
static int take_record(struct kp_ring_reader *reader, struct kp_ring_cell *cell,
		       struct kp_ring_record *ret)
{
	int sane = copy_record(reader, &cell->record, ret);

	/* Release: the copy is done. Pairs with the acquire CAS of the cell's next writer. */
	ring_store(&cell->state, FREE, __ATOMIC_RELEASE);
	if (sane)
		reader->kept++;
	else
		reader->bad++;
	return sane;
}

/* Done with the ticket at tail. */
static void advance(struct kp_ring_reader *reader)
{
	reader->tail++;
	/* Release: the cell was freed before; pairs with the acquire load in take_ticket(). */
	ring_store(&reader->ring->tail, reader->tail, __ATOMIC_RELEASE);
}

/*
 * Gives up on the ticket at tail, whose cell was seen in that state. A writer in the cell keeps
 * it; RETIRED only notes that nobody waits for it any more. A writer that has not come to a free
 * cell may still do so, through its CAS like any other. If the state has changed meanwhile, which
 * is the writer's last-minute FULL, nothing happens and the caller looks again.
 */
static void give_up_on(struct kp_ring_reader *reader, struct kp_ring_cell *cell, uint64_t state)
{
	/*
	 * Relaxed: hands over nothing. It takes nothing from the writer's publishing either: that
	 * overwrites RETIRED, and who reads FULL reads what the writer released.
	 */
	if (state % 4 == WRITING &&
	    !ring_cas(&cell->state, state, state - WRITING + RETIRED, __ATOMIC_RELAXED))
		return;
	reader->abandoned++;
	advance(reader);
}

/*
 * The ticket after the last one claimed. Writers hold head within tail..tail + cell_count, so
 * another value was scribbled there. Then head is set to the end of that range: no ticket that
 * an honest writer has can lie beyond it, so all that was published will be read.
 */
static uint64_t claimed_end(struct kp_ring_reader *reader)
{
	/* Relaxed: says how far to look; what is found there is ordered by the cells' states. */
	uint64_t head = ring_load(&reader->ring->head, __ATOMIC_RELAXED);
	uint64_t end = reader->tail + reader->cell_count;

	/* Nobody else writes tail. One that is not ours would let all writers find the ring full. */
	if (ring_load(&reader->ring->tail, __ATOMIC_RELAXED) != reader->tail) {
		reader->resyncs++;
		/* Release: as in advance(). */
		ring_store(&reader->ring->tail, reader->tail, __ATOMIC_RELEASE);
	}
	if (head - reader->tail <= reader->cell_count)
		return head;
	reader->resyncs++;
	/* Relaxed, and one try: if it fails, head is still foreign or right, and seen next time. */
	(void)ring_cas(&reader->ring->head, head, end, __ATOMIC_RELAXED);
	return end;
}

enum kp_ring_result kp_ring_read(struct kp_ring_reader *reader, struct kp_ring_record *ret,
				 int give_up)
{
	uint64_t end = claimed_end(reader);

	/*
	 * In honest use a ticket takes four looks at most: a late record of an earlier lap is in the
	 * way, or a writer finishes while it is being given up. The bound is for the other case.
	 */
	for (uint64_t looks = 4 * (uint64_t)reader->cell_count; looks && reader->tail != end;
	     looks--) {
		struct kp_ring_cell *cell = reader_cell(reader, reader->tail);
		/* Acquire pairs with the release in kp_ring_publish(): FULL shows the record. */
		uint64_t state = ring_load(&cell->state, __ATOMIC_ACQUIRE);

		if (state == cell_state(reader->tail, FULL)) {
			int sane = take_record(reader, cell, ret);

			advance(reader);
			if (sane)
				return KP_RING_RECORD;
		} else if (state % 4 == FULL) {
			if (take_record(reader, cell, ret)) {
				reader->late++;
				return KP_RING_RECORD;
			}
		} else if (state == FREE || state % 4 == WRITING) {
			if (!give_up)
				return KP_RING_PENDING;
			give_up_on(reader, cell, state);
		} else {
			/* RETIRED, or no state at all: the ticket's writer cannot get this cell. */
			give_up_on(reader, cell, state);
		}
	}
	return KP_RING_EMPTY;
}

enum kp_ring_result kp_ring_read_late(struct kp_ring_reader *reader, struct kp_ring_record *ret)
{
	while (reader->swept < reader->cell_count) {
		struct kp_ring_cell *cell =
			cell_at(reader->ring, reader->cell_bytes, reader->swept++);
		/* Acquire pairs with the release in kp_ring_publish(). */
		uint64_t state = ring_load(&cell->state, __ATOMIC_ACQUIRE);

		if (state % 4 == FULL && take_record(reader, cell, ret)) {
			reader->late++;
			return KP_RING_RECORD;
		}
	}
	return KP_RING_EMPTY;
}

/* A counter that the target may have scribbled over: kept small enough that sums do not wrap. */
static uint64_t read_counter(const uint64_t *counter)
{
	uint64_t value = ring_load(counter, __ATOMIC_RELAXED);

	return value < UINT64_MAX / 8 ? value : UINT64_MAX / 8;
}

void kp_ring_count(const struct kp_ring_reader *reader, struct kp_ring_counts *ret)
{
	uint64_t read = reader->kept + reader->bad;
	/* Every record has a ticket below tail, unless the target forged some. */
	uint64_t tickets = reader->tail > read ? reader->tail : read;

	ret->dropped_full = read_counter(&reader->ring->dropped_full);
	ret->dropped_cap = read_counter(&reader->ring->dropped_cap);
	ret->abandoned = tickets - read;
	ret->bad = reader->bad;
	ret->kept = reader->kept;
	ret->taken = tickets + ret->dropped_full + ret->dropped_cap;
	ret->dropped = ret->taken - ret->kept;
}
