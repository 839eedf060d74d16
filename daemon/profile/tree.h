/*
 * The call tree by name: stacks that differ only in addresses or lines are one path. The first
 * level holds the parts of the profile, below come functions from the root to the leaf; inlined
 * frames are nodes like others.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/parts.h"
#include "daemon/profile/profile.h"

struct kp_tree_node {
	uint32_t parent; /* a lower index */
	uint32_t name; /* string of the profile; of a part: its process's */
	uint32_t part; /* index in the parts */
	int64_t self[KP_VALUE_MAX]; /* of samples whose leaf is here */
};

/* node[0] is the root: without a name, its own parent. */
struct kp_tree {
	struct kp_tree_node *node;
	uint32_t count;
};

/* parts: of this profile; looked at until the call returns. */
int kp_tree_build(const struct kp_profile *p, const struct kp_parts *parts, struct kp_tree *ret,
		  struct kp_err *err);
void kp_tree_deinit(struct kp_tree *tree);
