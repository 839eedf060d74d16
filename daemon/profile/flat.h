/*
 * The flat view: what each function took itself, and what it took together with all it called.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/profile.h"

struct kp_flat_row {
	uint32_t function;
	uint32_t mapping; /* where it was first seen; 0: in none */
	int64_t self[KP_VALUE_MAX]; /* of samples whose innermost frame it is */
	int64_t cumulative[KP_VALUE_MAX]; /* of samples that have it anywhere, once each */
};

struct kp_flat {
	struct kp_flat_row *row; /* by the default value: most self, then cumulative, then name */
	uint32_t count;
	int64_t total[KP_VALUE_MAX]; /* of the samples */
};

/* sample: indices of so many samples, as a struct kp_parts lists them; NULL: of all samples. */
int kp_flat_build(const struct kp_profile *p, const uint32_t *sample, uint32_t sample_count,
		  struct kp_flat *ret, struct kp_err *err);
void kp_flat_deinit(struct kp_flat *flat);
