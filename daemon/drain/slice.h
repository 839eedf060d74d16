/*
 * The walk of a stack that the handler has copied (struct kp_ring_slice of proto/ring.h), with the
 * same code that the handler walks with. Pure. Runs in the daemon's session loop.
 */
#pragma once

#include "common/unwind/walk.h"
#include "proto/ring.h"

struct kp_slice_walk {
	const struct kp_arch *arch; /* of the target */
	uint32_t depth; /* frames at most, 1..KP_DEPTH_MAX */
	kp_find_rule_fn find_rule; /* NULL: frame pointers only */
	void *find_ctx;
};

/*
 * *ret, with room for KP_DEPTH_MAX PCs, is the record with its stack instead of its slice. slice: a
 * record with KP_HOW_SLICE as kp_ring_read() gives it: its content may be anything. Memory outside
 * of the slice is not there: KP_HOW_CUT is in ret->how if the walk ended for want of what lies behind
 * it, and the stack did go on there.
 */
void kp_slice_walk(const struct kp_slice_walk *how, const struct kp_ring_record *slice,
		   struct kp_ring_record *ret);
