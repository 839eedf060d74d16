/*
 * Parts: the samples of a profile divided by who ran. Reports show one part after the other, or as
 * the roots of a picture.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/profile.h"

/* What makes two parts of two samples. */
enum kp_split {
	KP_SPLIT_NONE, /* the process's name: processes of one name are one part */
	KP_SPLIT_PROCESS, /* name and pid: before and behind an exec are two */
	KP_SPLIT_THREAD, /* and tid; a thread that changes its own name stays one */
};

struct kp_part {
	uint32_t label; /* of its labels the one with the most: its thread's name is the part's */
	int64_t total[KP_VALUE_MAX];
	uint32_t first, count; /* its samples: sample[first] and following */
};

struct kp_parts {
	struct kp_part *part; /* by the default value: most first, then by pid and tid */
	uint32_t count;
	uint32_t *sample; /* indices of samples, part by part */
	uint32_t *of_label; /* the part of each label; not for labels without samples */
};

int kp_parts_build(const struct kp_profile *p, enum kp_split split, struct kp_parts *ret,
		   struct kp_err *err);
void kp_parts_deinit(struct kp_parts *parts);
