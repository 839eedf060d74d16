/*
 * One step along the chain of frame pointers. Pure: registers and a way to read memory in, the
 * caller's registers or the reason for stopping out. The same code runs in the target's signal
 * handler (agent/) and in the daemon (tests, later stack slices).
 *
 * Runs in the target's signal handler: no libc, no TLS, no lock, bounded; memory is only read
 * through the callback.
 */
#pragma once

#include "common/arch/arch.h"

#include <stdint.h>

struct kp_regs {
	uint64_t pc; /* where this frame executes (leaf) or continues (caller: return address) */
	uint64_t sp;
	uint64_t fp;
	uint64_t ra; /* link register; 0 where the CPU has none or its content is not known */
	uint64_t base; /* arch's dwarf.base; KP_REG_LOST where there is none or it is not known */
};

/*
 * Reads the 8-byte little-endian word at addr (8-aligned). Returns 0, or another value if it
 * cannot be read; then *ret is untouched.
 */
typedef int (*kp_read_word_fn)(void *ctx, uint64_t addr, uint64_t *ret);

/* How a walk ended; in the ring's and the raw file's records, so the numbers stay. */
enum kp_walk_end {
	KP_WALK_ON = 0, /* not an end: *regs is now the caller's */
	KP_WALK_ROOT = 1, /* the frame pointer is 0: the outermost frame was reached */
	KP_WALK_ZERO_PC = 2, /* the return address is 0: the outermost frame was reached */
	KP_WALK_MISALIGNED = 3, /* the frame pointer is not a frame pointer */
	KP_WALK_NOT_ADVANCING =
		4, /* the chain does not go up: a loop, another stack or not a chain */
	KP_WALK_TOO_FAR = 5, /* one step of more than KP_FP_STEP_MAX bytes */
	KP_WALK_UNREADABLE = 6, /* the memory at the frame pointer cannot be read */
	KP_WALK_BAD_PC = 7, /* the return address cannot be code (below KP_CODE_MIN) */
	KP_WALK_DEPTH = 8, /* as many frames as a record holds */
	KP_WALK_OUTERMOST = 9, /* the unwind table says that this frame has no caller */
	KP_WALK_NO_RULE = 10, /* neither table nor frame pointer tells the caller */
	KP_WALK_END_COUNT
};

/*
 * A register whose content is not known. Not 0, which as frame pointer is the root of a chain;
 * misaligned, so that no step takes it for an address on the stack.
 */
#define KP_REG_LOST UINT64_C(1)

#define KP_FP_STEP_MAX (UINT64_C(1) << 20) /* bytes between two frame pointers */
#define KP_CODE_MIN UINT64_C(4096) /* no code is mapped below */

/*
 * Whether a walk that ended so has seen the whole stack. Everything else is shown as truncated.
 */
static inline int kp_walk_is_whole(enum kp_walk_end end)
{
	return end == KP_WALK_ROOT || end == KP_WALK_ZERO_PC || end == KP_WALK_OUTERMOST;
}

/*
 * From *regs to its caller. leaf: *regs was interrupted there, it is not a return address (only
 * then is regs->ra meaningful). Returns KP_WALK_ON with *regs moved to the caller (ra set to 0),
 * or the reason why there is none, with *regs unchanged. The caller's base register is lost. Never
 * KP_WALK_DEPTH: counting is the walker's.
 */
enum kp_walk_end kp_fp_step(const struct kp_frame_layout *layout, struct kp_regs *regs, int leaf,
			    kp_read_word_fn read_word, void *ctx);

/*
 * The same where the code is known to have left one stack for another: the frame may be anywhere. It
 * has to look like one all the more: the frame pointer that it has saved is 0 or leads up from there
 * as any step's has to. The only step that may go down, so it is the walker's to count them.
 */
enum kp_walk_end kp_fp_switch(const struct kp_frame_layout *layout, struct kp_regs *regs,
			      kp_read_word_fn read_word, void *ctx);

#define KP_FP_SWITCHES_MAX 8 /* in one walk: in Go one, two more for each call from C back to Go */

/*
 * The whole walk: writes the leaf's pc and the callers' return addresses to pc[0..max-1], leaf
 * first, and their number (1..max) to *ret_n. max >= 1. Returns how it ended; KP_WALK_DEPTH when
 * max frames were written and the chain goes on.
 */
enum kp_walk_end kp_fp_walk(const struct kp_frame_layout *layout, struct kp_regs regs,
			    kp_read_word_fn read_word, void *ctx, uint64_t *pc, uint32_t max,
			    uint32_t *ret_n);
