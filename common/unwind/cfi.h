/*
 * One step by a rule of a module's unwind table (table.h): the registers of a frame in, those of
 * its caller out. Pure, like fp.h, and the same code in the handler and in the daemon.
 *
 * Runs in the target's signal handler: no libc, no TLS, no lock, bounded; memory is only read
 * through the callback.
 */
#pragma once

#include "common/unwind/fp.h"
#include "common/unwind/table.h"

/* The interrupted thread's register of that DWARF number. 0, or -1 where there is none. */
typedef int (*kp_leaf_register_fn)(void *ctx, uint32_t dwarf_number, uint64_t *ret);

/* Bytes between the stack pointers of a frame and its caller at most, signal frames left out. */
#define KP_CFA_STEP_MAX (UINT64_C(16) << 20)

struct kp_cfi_step {
	const struct kp_arch *arch;
	kp_read_word_fn read_word;
	void *ctx; /* of read_word */
	kp_leaf_register_fn leaf_register; /* NULL: this is not the interrupted frame */
	void *leaf_ctx;
};

/*
 * From *regs to its caller by *rule. KP_WALK_ON with *regs moved (ra 0); else the reason, *regs
 * unchanged: KP_WALK_OUTERMOST for a STOP rule, KP_WALK_NO_RULE for GAP, INVALID, a register that
 * is lost and what only the leaf would know, and those of fp.h. Every rule byte may be anything.
 *
 * The caller's sp is above the frame's by KP_CFA_STEP_MAX at most. It may be the same only where
 * the return address is in the link register: that is so once, since the caller's ra is 0.
 *
 * A caller's pc is a return address; after a signal frame (rule->cfa == KP_CFA_SIGNAL) it is where
 * the code was interrupted, like a leaf's, ra is known again, and sp may be on another stack.
 */
enum kp_walk_end kp_cfi_step(const struct kp_cfi_step *step, const struct kp_table_rule *rule,
			     struct kp_regs *regs);
