/*
 * The truth figures of a profile, gathered while its raw profile is read: what the session said of
 * itself, and what is counted here.
 */
#pragma once

#include "daemon/profile/profile.h"
#include "proto/rawfile.h"
#include "proto/ring.h"

#include <stdbool.h>

/* All zero is the state before the first record. */
struct kp_account {
	struct kp_raw_lost lost; /* the last sums in the file */
	uint64_t elapsed_ns; /* of the last TIME */
	uint64_t samples, overruns; /* counted here */
	uint32_t clock[KP_SOURCE_LAST + 1]; /* by source: 1 + index in truth.clock[] */
	bool has_process, has_end;
};

/* Takes a record in. Writes p->truth and interns its strings. 0 or -KP_ENOMEM. */
int kp_account_apply(struct kp_account *a, struct kp_profile *p, const struct kp_raw_record *record,
		     struct kp_err *err);

/*
 * After the last record: what only the end can tell. taken = kept + dropped holds afterwards, kept
 * being the samples that the file has.
 */
void kp_account_finish(const struct kp_account *a, struct kp_profile *p);
