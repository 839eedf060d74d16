/*
 * The walk along the chain of frame pointers: one step, and all of them. Takes what it is given
 * for untrusted: any register may hold anything, any word read may be garbage.
 *
 * Runs in the target's signal handler (and in the daemon): no libc, no TLS, no lock, bounded by
 * max frames; memory is read through the callback only.
 *
 * What the chain alone cannot tell, and what the table unwinder is for:
 *  - In a prologue before the frame is linked, in an epilogue after it is unlinked, and in a
 *    function without a frame, the frame pointer is the caller's: the caller is missing from the
 *    stack, everything above it is right. GCC's leaves are such functions even with
 *    -fno-omit-frame-pointer: those that need no stack on x86-64, all of them on aarch64. (On
 *    riscv64 they have a frame of their own kind, which is recognised, below.)
 *  - On aarch64 the missing caller is in x30, but x30 is no help here: in a function with a frame
 *    that has called something, x30 points into that function itself. Neither the frame record nor
 *    sp tells the two apart (GCC keeps x29 == sp in both), so taking x30 would invent recursion as
 *    often as it restored a caller. A missing frame is the smaller lie; regs.ra is used only where
 *    the layout says leaf_in_ra.
 *  - A function that uses the frame pointer as a general register ends the walk, or, if the value
 *    happens to look like a frame, adds frames that were not there.
 */
#include "common/unwind/fp.h"

static uint64_t at(uint64_t fp, int32_t off)
{
	return fp + (uint64_t)(int64_t)off;
}

/* The lowest byte of a frame's two words, as an offset from the frame pointer: 0, or -16. */
static int64_t bottom_off(const struct kp_frame_layout *layout)
{
	return layout->prev_fp_off < layout->return_off ? layout->prev_fp_off : layout->return_off;
}

/*
 * Whether fp can be the frame pointer of the frame above sp. After the first step sp is the end of
 * the frame before, so "not below sp" is "at least the previous frame pointer + 16" on each CPU.
 * sp 0: not known.
 */
static enum kp_walk_end check_fp(const struct kp_frame_layout *layout, uint64_t fp, uint64_t sp)
{
	if (!fp)
		return KP_WALK_ROOT;
	if (fp & (layout->fp_align - 1)) /* a power of two */
		return KP_WALK_MISALIGNED;
	if (!sp)
		return KP_WALK_ON;
	if (fp < sp || fp - sp < (uint64_t)-bottom_off(layout))
		return KP_WALK_NOT_ADVANCING;
	if (fp - sp > KP_FP_STEP_MAX)
		return KP_WALK_TOO_FAR;
	return KP_WALK_ON;
}

/*
 * Whether the leaf at fp saved nothing but the previous frame pointer (*ret), at the place where
 * other frames keep the return address. Such a word is told from a return address by pointing a
 * short way up the stack. That is wrong only if code is mapped less than KP_FP_STEP_MAX above the
 * stack in use and the return address is 8-aligned as well.
 */
static int is_bare_leaf(const struct kp_frame_layout *layout, const struct kp_regs *regs,
			uint64_t fp, kp_read_word_fn read_word, void *ctx, uint64_t *ret)
{
	if (!layout->leaf_in_ra || (regs->ra & layout->code_mask) < KP_CODE_MIN)
		return 0;
	if (read_word(ctx, at(fp, layout->leaf_prev_fp_off), ret))
		return 0;
	*ret &= layout->data_mask;
	return *ret && check_fp(layout, *ret, fp) == KP_WALK_ON;
}

/* Moves *regs to the caller, if the two words of the frame at fp can be those of one. */
static enum kp_walk_end arrive(const struct kp_frame_layout *layout, struct kp_regs *regs,
			       uint64_t fp, uint64_t return_address, uint64_t prev_fp)
{
	return_address &= layout->code_mask;
	if (!return_address)
		return KP_WALK_ZERO_PC;
	if (return_address < KP_CODE_MIN)
		return KP_WALK_BAD_PC;

	regs->pc = return_address;
	regs->sp = at(fp, layout->sp_after_off);
	regs->fp = prev_fp;
	regs->ra = 0;
	regs->base = KP_REG_LOST;
	return KP_WALK_ON;
}

/* Inline, to spare the walk in the handler a stack frame. */
static inline __attribute__((always_inline)) enum kp_walk_end
step(const struct kp_frame_layout *layout, struct kp_regs *regs, int leaf,
     kp_read_word_fn read_word, void *ctx)
{
	uint64_t fp = regs->fp & layout->data_mask;
	uint64_t return_address = 0, prev_fp = 0;
	enum kp_walk_end end;

	end = check_fp(layout, fp, regs->sp & layout->data_mask);
	if (end != KP_WALK_ON)
		return end;
	if (leaf && is_bare_leaf(layout, regs, fp, read_word, ctx, &prev_fp))
		return_address = regs->ra;
	else if (read_word(ctx, at(fp, layout->return_off), &return_address) ||
		 read_word(ctx, at(fp, layout->prev_fp_off), &prev_fp))
		return KP_WALK_UNREADABLE;
	return arrive(layout, regs, fp, return_address, prev_fp);
}

enum kp_walk_end kp_fp_switch(const struct kp_frame_layout *layout, struct kp_regs *regs,
			      kp_read_word_fn read_word, void *ctx)
{
	uint64_t fp = regs->fp & layout->data_mask;
	uint64_t return_address, prev_fp;
	enum kp_walk_end end;

	end = check_fp(layout, fp, 0);
	if (end != KP_WALK_ON)
		return end;
	if (read_word(ctx, at(fp, layout->return_off), &return_address) ||
	    read_word(ctx, at(fp, layout->prev_fp_off), &prev_fp))
		return KP_WALK_UNREADABLE;
	end = check_fp(layout, prev_fp & layout->data_mask, at(fp, layout->sp_after_off));
	if (end != KP_WALK_ON && end != KP_WALK_ROOT)
		return end;
	return arrive(layout, regs, fp, return_address, prev_fp);
}

enum kp_walk_end kp_fp_step(const struct kp_frame_layout *layout, struct kp_regs *regs, int leaf,
			    kp_read_word_fn read_word, void *ctx)
{
	return step(layout, regs, leaf, read_word, ctx);
}

enum kp_walk_end kp_fp_walk(const struct kp_frame_layout *layout, struct kp_regs regs,
			    kp_read_word_fn read_word, void *ctx, uint64_t *pc, uint32_t max,
			    uint32_t *ret_n)
{
	enum kp_walk_end end;
	uint32_t n = 0;

	pc[n++] = regs.pc & layout->code_mask;
	for (;;) {
		end = step(layout, &regs, n == 1, read_word, ctx);
		if (end != KP_WALK_ON)
			break;
		if (n >= max) {
			end = KP_WALK_DEPTH;
			break;
		}
		pc[n++] = regs.pc;
	}
	*ret_n = n;
	return end;
}
