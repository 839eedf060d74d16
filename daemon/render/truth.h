/*
 * What a profile is worth, in sentences. The same words stand at the end of a session on stderr,
 * at the head of the flat report and among pprof's comments.
 */
#pragma once

#include "daemon/profile/profile.h"
#include "daemon/render/text.h"

#include <stdio.h>

/* One sentence a line, prefix before each: how many samples, what they explain, what is missing. */
void kp_truth_put(const struct kp_profile *p, const char *prefix, FILE *out);

/* The period of the fastest clock that gave samples; 0 where none is known. */
uint64_t kp_truth_period_ns(const struct kp_truth *t);

/* Samples a second of CPU time that were asked for, in hertz. */
struct kp_text_number kp_truth_rate_asked(const struct kp_truth *t);

/*
 * And those that came, each with the timer expirations that it stands for: per second of CPU time;
 * where that is not known (cpu_ns is 0), of the window. Without text where that is not either.
 */
struct kp_text_number kp_truth_rate_got(const struct kp_truth *t, unsigned int decimals);
