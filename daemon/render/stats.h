/*
 * What the two forms of the statistics, lines and JSON, have in common.
 */
#pragma once

#include "daemon/profile/profile.h"

#include <stdbool.h>

/* How the program ended that `kitprof run` started. */
struct kp_stats_exit {
	bool known;
	uint32_t status; /* as a shell has it: 128 + signal where one killed it */
	uint32_t signal; /* 0: none */
};
struct kp_stats_exit kp_stats_exit(const struct kp_truth *t);

/*
 * A raw profile that was cut off has no END record, and zeros stand for what only that tells:
 * stopped and own time, numbers of threads.
 */
bool kp_stats_has_end(const struct kp_truth *t);
