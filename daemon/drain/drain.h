/*
 * Ring -> raw profile. The only reader of the ring. Slices of stacks are walked on the way (slice.h).
 * Runs in the daemon's session loop.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/walk.h"
#include "proto/rawfile.h"
#include "proto/ring.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Called for each record before it is written: completes the sample (pid, tid, weight_ns) and may
 * write records that it refers to first (a new module). Returns 0 or < 0.
 */
typedef int (*kp_drain_complete_fn)(void *ctx, const struct kp_ring_record *record,
				    struct kp_raw_sample *sample, struct kp_err *err);

/*
 * Called for a slice before it is walked: a kp_find_rule_fn for the process that the record is from,
 * with its context, good until the walk is over; NULL where there are no tables.
 */
typedef kp_find_rule_fn (*kp_drain_rules_fn)(void *ctx, const struct kp_ring_record *record,
					     void **ret_ctx);

struct kp_drain_options {
	struct kp_ring *ring;
	uint32_t cell_count, words; /* of the ring */
	struct kp_raw_writer *writer;
	/* Samples that may still be written, by all drains of a session together (--cap). */
	uint64_t *left;
	kp_drain_complete_fn complete;
	void *ctx; /* of complete and rules */
	/* for slices */
	const struct kp_arch *arch;
	uint32_t depth; /* frames at most, 1..KP_DEPTH_MAX */
	kp_drain_rules_fn rules; /* NULL: frame pointers only */
};

struct kp_drain {
	struct kp_ring_reader reader;
	struct kp_drain_options options;
	uint64_t put; /* records that came by kp_drain_put() */
	uint64_t put_time_ns; /* elapsed time of the TIME record before the last of them */
	uint64_t over_cap; /* records that were read and not written, because none was left */
	uint64_t pending_since_ns; /* CLOCK_MONOTONIC; 0: no writer is waited for */
	uint64_t overruns; /* likewise */
	struct kp_ring_record *record; /* with room for the ring's words */
	/* One that was walked here. */
	uint64_t walked[sizeof(struct kp_ring_record) / 8 + KP_DEPTH_MAX];
};

/* A writer that has not finished for so long is given up; a handler takes some microseconds. */
#define KP_DRAIN_PATIENCE_NS UINT64_C(500000000)

/* What options point to lives longer than the drain. */
int kp_drain_init(struct kp_drain *drain, const struct kp_drain_options *options,
		  struct kp_err *err);
void kp_drain_deinit(struct kp_drain *drain);

/* The ring's account, with what was over the cap moved from kept to dropped. */
void kp_drain_count(const struct kp_drain *drain, struct kp_ring_counts *ret);

/*
 * Writes all that is there. elapsed_ns: since the start of the window. last: the writers are gone,
 * nothing is waited for any more.
 */
int kp_drain_run(struct kp_drain *drain, uint64_t elapsed_ns, bool last, struct kp_err *err);

/*
 * A sample that the daemon itself has taken: counted and written as if it had come through the ring.
 * It does not, because to write there the daemon would have to believe what the ring says of itself.
 */
int kp_drain_put(struct kp_drain *drain, const struct kp_ring_record *record, uint64_t elapsed_ns,
		 struct kp_err *err);
