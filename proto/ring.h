/*
 * The ring in shared memory: signal handlers of the target write samples, the daemon reads them.
 * Bounded, lock-free, many writers, one reader; a writer never waits for anybody. Both halves are
 * in ring.c. docs/ring.md has the protocol, its argument and what the tests prove.
 *
 * The writer half runs in the target's signal handler: no libc, no TLS, no lock, no floating
 * point, bounded loops.
 *
 * What is lost is counted where it is lost:
 *	taken   = tickets that the reader is done with (tail) + dropped_full + dropped_cap
 *	kept    = records that the reader got
 *	dropped = taken - kept
 * With every writer finished and the ring drained tail is head, and taken is every sample.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KP_RING_MAGIC UINT32_C(0x676e724b) /* "Krng" */
#define KP_RING_CELL_ALIGN 64u
#define KP_DEPTH_MAX 1024u /* frames of a stack at most */
#define KP_RING_WORDS_MAX 8256u /* words in a record at most, that of a slice */

/* What sent the signal. Stored in records; the numbers stay. */
enum kp_sample_source {
	KP_SOURCE_TIMER =
		1, /* per-thread POSIX CPU timer: origin is the tid in the target's pid ns */
	KP_SOURCE_EVENT = 2, /* perf event of the daemon: origin is the event's fd in the daemon */
	/* the daemon takes these itself, and they do not come through the ring */
	KP_SOURCE_STOP = 3, /* the daemon, in a short stop of a running thread: origin is the tid */
	KP_SOURCE_WAIT = 4, /* the daemon, of a thread that waits: origin is the tid; no CPU time */
	KP_SOURCE_EARLY = 5, /* the kernel, of a thread that has no clock of ours yet: likewise */
	KP_SOURCE_LAST = KP_SOURCE_EARLY,
};

/* One sample as the handler writes it: raw PCs, or the stack that the daemon shall walk. */
struct kp_ring_record {
	uint32_t origin; /* see enum kp_sample_source */
	uint32_t overrun; /* expirations of the timer that no signal was sent for */
	uint16_t depth; /* number of pc[], 1..KP_DEPTH_MAX; of a slice, of its words */
	uint8_t source; /* enum kp_sample_source */
	uint8_t walk_end; /* enum kp_walk_end of common/unwind/fp.h */
	uint32_t how; /* set of enum kp_walk_how of common/unwind/walk.h */
	uint64_t pc[]; /* leaf first; callers are return addresses. Or a struct kp_ring_slice */
};
_Static_assert(sizeof(struct kp_ring_record) == 16, "layout is shared with the target");

/*
 * What a record with KP_HOW_SLICE has in pc[], depth words of it: no PCs but the registers and the
 * upper end of the stack, to be walked by the daemon. KP_HOW_CUT beside it: the stack went on, but
 * no more of it was asked for.
 */
#define KP_SLICE_REGS 32u
struct kp_ring_slice {
	uint64_t pc, sp, fp, ra; /* as struct kp_regs of common/unwind/fp.h */
	uint64_t reg[KP_SLICE_REGS]; /* general registers by their DWARF numbers; 0: no such one */
	uint64_t stack[]; /* from sp & ~7 upwards */
};
#define KP_SLICE_HEAD_WORDS 36u
_Static_assert(sizeof(struct kp_ring_slice) == KP_SLICE_HEAD_WORDS * 8, "shared with the target");

struct kp_ring_cell {
	uint64_t state; /* atomic; ring.c */
	struct kp_ring_record record;
};
_Static_assert(sizeof(struct kp_ring_cell) == 24, "layout is shared with the target");

/*
 * At the start of the ring's memory; cells follow at KP_RING_HEAD_BYTES. Zeroed memory with the
 * first line filled in is a valid empty ring. Counters are atomic and only ever grow.
 */
struct kp_ring {
	/* constant after kp_ring_format() */
	uint32_t magic;
	uint32_t cell_count; /* a power of two */
	uint32_t cell_bytes; /* a multiple of KP_RING_CELL_ALIGN */
	uint32_t words; /* pc[] that a record has room for */
	uint64_t ticket_max; /* tickets handed out at most (--cap); then dropped_cap counts */
	uint64_t pad0[5];
	/* written by writers */
	uint64_t head; /* next ticket */
	uint64_t dropped_full; /* no cell was free, or too many writers at once */
	uint64_t dropped_cap; /* ticket_max was reached */
	uint64_t pad1[5];
	/* written by the reader */
	uint64_t tail; /* tickets below are done with */
	uint64_t pad2[7];
};
#define KP_RING_HEAD_BYTES 192u
_Static_assert(sizeof(struct kp_ring) == KP_RING_HEAD_BYTES, "layout is shared with the target");

/* Bytes of a cell for records of up to so many words in pc[]. */
uint32_t kp_ring_cell_bytes(uint32_t words);

/* Bytes of a ring with that many cells (a power of two). */
size_t kp_ring_bytes(uint32_t cell_count, uint32_t words);

/*
 * Makes zeroed memory of kp_ring_bytes() an empty ring. cell_count: a power of two, at least 2;
 * words: 1..KP_RING_WORDS_MAX; ticket_max: at least 1.
 */
void kp_ring_format(struct kp_ring *ring, uint32_t cell_count, uint32_t words, uint64_t ticket_max);

/*
 * Writer. kp_ring_claim() gives a record to fill in, or NULL when the sample is dropped (and
 * counted). Between it and kp_ring_publish() the record belongs to this writer alone, even if it
 * takes for ever. A writer that dies in between leaves a hole, which the reader skips and counts.
 */
struct kp_ring_record *kp_ring_claim(struct kp_ring *ring, uint64_t *ret_ticket);
void kp_ring_publish(struct kp_ring *ring, uint64_t ticket);

/*
 * Reader, private to the daemon. The geometry is copied at init: the target can scribble over the
 * shared header, but never make the reader leave the ring.
 */
struct kp_ring_reader {
	struct kp_ring *ring;
	uint32_t cell_count;
	uint32_t cell_bytes;
	uint32_t words;
	uint32_t swept; /* cells that kp_ring_read_late() has been through */
	uint64_t tail; /* next ticket to look at */
	uint64_t kept; /* records handed out */
	uint64_t abandoned; /* tickets skipped because their writer did not finish in time */
	uint64_t late; /* of those kept: came after their ticket had been skipped */
	uint64_t bad; /* records whose content makes no sense (torn by hostile writes); not kept */
	uint64_t resyncs; /* times that head or tail were put right after foreign writes */
};

enum kp_ring_result {
	KP_RING_RECORD = 0, /* *ret is filled in */
	KP_RING_EMPTY = 1, /* nothing claimed that is not read, or as much done as one call does */
	KP_RING_PENDING = 2, /* the next ticket is claimed but its writer has not finished */
};

void kp_ring_reader_init(struct kp_ring_reader *reader, struct kp_ring *ring, uint32_t cell_count,
			 uint32_t words);

/*
 * Copies the next record to ret (room for as many words as the ring's) and frees its cell. One call does bounded
 * work, whatever the target writes to the ring meanwhile; a caller that reads until the ring is
 * empty bounds the number of calls, because a target may write faster than anybody reads.
 * give_up: do not return KP_RING_PENDING but skip such tickets, counted as abandoned. The caller
 * says so when a ticket has been pending for longer than a writer can reasonably take, or at the
 * end of a session.
 */
enum kp_ring_result kp_ring_read(struct kp_ring_reader *reader, struct kp_ring_record *ret,
				 int give_up);

/*
 * After the last writer is gone and kp_ring_read() has said KP_RING_EMPTY with give_up: hands out,
 * one a call, records that arrived after their ticket had been skipped. KP_RING_EMPTY when there
 * is none left; it goes through the cells once in a reader's life.
 */
enum kp_ring_result kp_ring_read_late(struct kp_ring_reader *reader, struct kp_ring_record *ret);

struct kp_ring_counts {
	uint64_t taken;
	uint64_t kept;
	uint64_t dropped; /* taken - kept, = the sum of the four below */
	uint64_t dropped_full;
	uint64_t dropped_cap;
	uint64_t abandoned; /* claimed and never delivered */
	uint64_t bad;
};

/* The account of the tickets that the reader is done with; it adds up at any time. */
void kp_ring_count(const struct kp_ring_reader *reader, struct kp_ring_counts *ret);
