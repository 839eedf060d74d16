/*
 * What each thread really ran, against what its samples say: the weights of a thread's samples are
 * scaled so that they come to its run time (docs/truth.md has the formula and why). Filled in one
 * pass over a raw profile, used in the next.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/index.h"
#include "proto/rawfile.h"

#include <stdint.h>

/* Of all threads that had this tid, one after another. */
struct kp_runtime {
	uint32_t pid, tid;
	uint64_t samples; /* of CPU time */
	uint64_t sampled_ns; /* sum of their weights */
	uint64_t cpu_ns, blind_ns; /* of its tallies */
	uint32_t flags; /* of its tallies: set of enum kp_raw_tally_flag */
	uint64_t wanted_ns; /* what the weights shall come to; sampled_ns: as they are */
	uint64_t in_ns, out_ns; /* scaled so far */
};

/* All zero is the empty one. */
struct kp_runtimes {
	struct kp_index index;
	struct kp_runtime *thread; /* in the order of their first record */
	uint32_t count, room;
	int has_events; /* user time has a clock of its own, whose first tick is not random */
};

/* Takes a record in; those that say nothing of it are passed over. 0 or -KP_ENOMEM. */
int kp_runtimes_apply(struct kp_runtimes *r, const struct kp_raw_record *record,
		      struct kp_err *err);

/* The thread, or NULL. Valid until the next record is applied. */
const struct kp_runtime *kp_runtimes_find(const struct kp_runtimes *r, uint32_t pid, uint32_t tid);

/* After the last record. */
void kp_runtimes_finish(struct kp_runtimes *r);

/*
 * The weight that a sample gets. Weights of a thread come out exactly as wanted_ns when all of its
 * samples have been asked for, in any order.
 */
uint64_t kp_runtimes_weight(struct kp_runtimes *r, const struct kp_raw_sample *sample);

void kp_runtimes_deinit(struct kp_runtimes *r);
