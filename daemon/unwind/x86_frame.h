/*
 * A frame of x86-64 code, followed from instruction to instruction: how far the stack pointer is
 * from the CFA, what the frame pointer holds, where the caller's is saved. No state; pure.
 *
 * What is taken for granted is what a compiler and the psABI promise: a called function returns with
 * the stack pointer behind its return address and with the caller's frame pointer, and nobody but
 * the function itself writes to its frame.
 */
#pragma once

#include "common/unwind/table.h"
#include "daemon/unwind/x86_insn.h"

enum kp_x86_root {
	KP_X86_CALLED, /* has a caller, whose sp was the CFA */
	KP_X86_ROOT, /* has none */
	KP_X86_RESTORER, /* the kernel's signal frame lies at sp */
};

enum kp_x86_fp {
	KP_X86_FP_CALLERS, /* the caller's value */
	KP_X86_FP_FRAME, /* an address in the frame: CFA - fp */
	KP_X86_FP_OTHER,
};

#define KP_X86_UNKNOWN INT32_MIN

/* Distances in bytes, below the CFA. At a function's first instruction sp is 8. */
struct kp_x86_frame {
	int32_t sp; /* or UNKNOWN, for good */
	int32_t fp; /* if fp_is FRAME, else 0 */
	int32_t saved; /* of the word that the caller's frame pointer was saved to; 0: of none */
	uint8_t root; /* enum kp_x86_root; if not CALLED, the others are 0 */
	uint8_t fp_is; /* enum kp_x86_fp */
	uint16_t pad;
};

/* At the first instruction of a function that was called. */
struct kp_x86_frame kp_x86_frame_called(void);
struct kp_x86_frame kp_x86_frame_root(enum kp_x86_root root);

/*
 * After the instruction, if execution goes on behind it. writes: kp_x86_writes(). False: it takes
 * the return address off the stack, or moves sp to where it cannot be: this is not what it seemed.
 */
bool kp_x86_frame_step(struct kp_x86_frame *frame, const struct kp_x86_insn *insn, uint16_t writes);

/* What is true of a frame of which both are. */
struct kp_x86_frame kp_x86_frame_meet(const struct kp_x86_frame *a, const struct kp_x86_frame *b);

/* Whether a function may return like this, or hand over to another one. */
bool kp_x86_frame_is_left(const struct kp_x86_frame *frame);

/* The table's rule: a GAP if the CFA is not known. */
struct kp_table_rule kp_x86_frame_rule(const struct kp_x86_frame *frame);
