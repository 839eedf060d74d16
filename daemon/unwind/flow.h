/*
 * Frames of x86-64 code that nothing describes, out of the code itself: from functions' first
 * instructions along jumps and calls, each instruction's frame (x86_frame.h). docs/unwinding.md,
 * "Code without descriptions". Runs in the daemon; pure; the code may be anything: time and memory
 * are in proportion to its size.
 *
 * Ranges are added first, then functions, then it is run.
 */
#pragma once

#include "daemon/unwind/image.h"
#include "daemon/unwind/rows.h"
#include "daemon/unwind/x86_frame.h"

struct kp_flow;

/* The image must live as long. NULL: out of memory. */
struct kp_flow *kp_flow_create(const struct kp_image *image);
void kp_flow_destroy(struct kp_flow *flow);

/* For _cleanup_. */
static inline void kp_flow_destroyp(struct kp_flow **flow)
{
	kp_flow_destroy(*flow);
}

/*
 * Code in [start, end) that is to be read; ranges ascend and do not overlap. What the file does not
 * have of it, and what is too much (32 MiB in all), is passed over. 0 or -KP_ENOMEM, without words.
 */
int kp_flow_add_range(struct kp_flow *flow, uint64_t start, uint64_t end);

bool kp_flow_has(const struct kp_flow *flow, uint64_t address);

enum kp_flow_function {
	KP_FLOW_NAMED, /* a symbol says so: a call leads there, unless jumps say otherwise */
	KP_FLOW_POINTED, /* an address in data says so: also the label of a jump, perhaps */
	KP_FLOW_PART, /* none: a part of one that lies elsewhere, which jumps lead to */
	KP_FLOW_STARTED, /* the kernel or the dynamic linker jumps there: it has no caller */
};

/* A function begins at address; one that is in no range is passed over. */
void kp_flow_add_function(struct kp_flow *flow, uint64_t address, enum kp_flow_function how);

/* Calls of the code at address do not return. It need not be in a range. */
void kp_flow_add_endless(struct kp_flow *flow, uint64_t address);

/* 0 or -KP_ENOMEM. */
int kp_flow_run(struct kp_flow *flow);

/* The frame at the first byte of an instruction. False: it is not known. */
bool kp_flow_frame(const struct kp_flow *flow, uint64_t address, struct kp_x86_frame *ret,
		   uint8_t *ret_length);

/* Whether there is a frame at all. */
bool kp_flow_knows(const struct kp_flow *flow);

/* Writes the rows of [start, end), gaps included. 0 or -KP_ENOMEM. */
int kp_flow_put(const struct kp_flow *flow, uint64_t start, uint64_t end, struct kp_rows *rows);
