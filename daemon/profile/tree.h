/*
 * The call tree by name: stacks that differ only in addresses, lines or threads are one path. The
 * first level holds the names of the processes, below come functions from the root to the leaf;
 * inlined frames are nodes like others.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/profile.h"

struct kp_tree_node {
	uint32_t parent; /* a lower index */
	uint32_t name; /* string of the profile */
	int64_t self[KP_VALUE_MAX]; /* of samples whose leaf is here */
};

/* node[0] is the root: without a name, its own parent. */
struct kp_tree {
	struct kp_tree_node *node;
	uint32_t count;
};

int kp_tree_build(const struct kp_profile *p, struct kp_tree *ret, struct kp_err *err);
void kp_tree_deinit(struct kp_tree *tree);
