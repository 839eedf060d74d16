/*
 * The whole walk of a stack: by table where the code's module has one, by frame pointer where it
 * has none. The same in the handler and in the daemon; they differ in how memory is read and rules
 * are found.
 *
 * Runs in the target's signal handler: no libc, no TLS, no lock, bounded by max frames.
 */
#pragma once

#include "common/unwind/cfi.h"

/* On disk (how a sample was walked) and on the command line; the numbers stay. */
enum kp_unwind_mode {
	KP_UNWIND_AUTO = 0, /* table where there is one, else frame pointer */
	KP_UNWIND_FP = 1, /* frame pointers only */
	KP_UNWIND_TABLE = 2, /* tables only: the walk ends where there is none */
	KP_UNWIND_SLICE = 3, /* the handler copies the stack; the daemon walks it as in AUTO */
};

/* Bits: what a walk has used. On disk (flags of a SAMPLE), the numbers stay. */
enum kp_walk_how {
	KP_HOW_FP = 1, /* a step by frame pointer */
	KP_HOW_TABLE = 2, /* a step by table */
	KP_HOW_SIGNAL = 4, /* a step through a signal frame */
	KP_HOW_SLICE = 8, /* from a copy of the stack, in the daemon */
	KP_HOW_CUT = 16, /* the copy of the stack ended before the stack did */
};
#define KP_HOW_ALL 31u

/*
 * The rule for the code at pc (an address in the process; a return address less one for callers).
 * 0, or -1 where pc is in no module that has a table.
 */
typedef int (*kp_find_rule_fn)(void *ctx, uint64_t pc, struct kp_table_rule *ret);

struct kp_walk {
	const struct kp_arch *arch;
	enum kp_unwind_mode mode;
	kp_read_word_fn read_word;
	void *read_ctx;
	kp_find_rule_fn find_rule; /* NULL: no tables */
	void *find_ctx;
	kp_leaf_register_fn leaf_register; /* NULL: not known */
	void *leaf_ctx;
};

/*
 * Writes the leaf's pc and the callers' to pc[0..max-1], leaf first, their number (1..max) to
 * *ret_n and a set of enum kp_walk_how to *ret_how. Callers are return addresses, except the frame
 * that a signal interrupted, and a function that is returned to and was never entered (the root of a
 * coroutine): those are pc + 1, so that whoever takes one off gets the instruction. max >= 1. Returns how it ended; KP_WALK_DEPTH when max frames were written and the
 * stack goes on.
 */
enum kp_walk_end kp_walk(const struct kp_walk *walk, struct kp_regs regs, uint64_t *pc,
			 uint32_t max, uint32_t *ret_n, uint32_t *ret_how);
