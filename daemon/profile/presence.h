/* In how many samples each module is, as leaf or as caller; in one sample once. */
#pragma once

#include "common/err.h"

#include <stdint.h>

struct kp_presence_count {
	uint64_t samples, last;
};

/* All zero is nothing seen. */
struct kp_presence {
	struct kp_presence_count *of; /* by module of the replay */
	uint32_t capacity;
};

void kp_presence_deinit(struct kp_presence *p);

/* The module is in the sample of that number; the numbers begin with 1 and ascend. */
int kp_presence_add(struct kp_presence *p, uint32_t module, uint64_t sample, struct kp_err *err);

uint64_t kp_presence_samples(const struct kp_presence *p, uint32_t module);
