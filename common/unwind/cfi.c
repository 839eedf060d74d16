/*
 * One step by a rule of an unwind table. Takes what it is given for untrusted: each byte of the
 * rule, each register and each word read may be anything. The worst that comes of it is a caller
 * that is none.
 *
 * Runs in the target's signal handler (and in the daemon): no libc, no TLS, no lock, no loop;
 * memory is read through the callback only.
 *
 * Why a walk by rules ends: each step moves sp up, or takes the return address from the link
 * register, which leaves that empty (ra 0), so that the next step has to move up. A signal frame
 * may go anywhere and fills the link register again; those the walk counts (walk.c).
 */
#include "common/unwind/cfi.h"

static uint64_t at(uint64_t base, int32_t off)
{
	return base + (uint64_t)(int64_t)off;
}

static enum kp_walk_end load(const struct kp_cfi_step *step, uint64_t addr, uint64_t *ret)
{
	addr &= step->arch->frame.data_mask;
	if (addr % sizeof(uint64_t))
		return KP_WALK_MISALIGNED;
	return step->read_word(step->ctx, addr, ret) ? KP_WALK_UNREADABLE : KP_WALK_ON;
}

/* All registers, as the kernel has kept them. */
static enum kp_walk_end leave_signal(const struct kp_cfi_step *step, uint64_t sp,
				     struct kp_regs *ret)
{
	const struct kp_signal_frame *frame = &step->arch->signal;
	enum kp_walk_end end;

	end = load(step, sp + frame->pc_off, &ret->pc);
	if (end == KP_WALK_ON)
		end = load(step, sp + frame->sp_off, &ret->sp);
	if (end == KP_WALK_ON)
		end = load(step, sp + frame->fp_off, &ret->fp);
	if (end == KP_WALK_ON && frame->ra_off)
		end = load(step, sp + frame->ra_off, &ret->ra);
	if (end == KP_WALK_ON && frame->base_off)
		end = load(step, sp + frame->base_off, &ret->base);
	if (end != KP_WALK_ON)
		return end;

	/* 0 as well: a call of a null pointer is no outermost frame. The last: pc + 1 is written. */
	ret->pc &= step->arch->frame.code_mask;
	return ret->pc < KP_CODE_MIN || ret->pc == UINT64_MAX ? KP_WALK_BAD_PC : KP_WALK_ON;
}

static enum kp_walk_end find_cfa(const struct kp_cfi_step *step, const struct kp_table_rule *rule,
				 const struct kp_regs *regs, uint64_t *ret)
{
	uint64_t base = regs->sp;
	enum kp_walk_end end;

	switch (rule->cfa) {
	case KP_CFA_STOP:
		return KP_WALK_OUTERMOST;
	case KP_CFA_SP:
	case KP_CFA_DEREF_SP:
		break;
	case KP_CFA_FP:
	case KP_CFA_DEREF_FP:
		if (regs->fp == KP_REG_LOST)
			return KP_WALK_NO_RULE;
		base = regs->fp;
		break;
	case KP_CFA_REG:
		if (step->leaf_register && !step->leaf_register(step->leaf_ctx, rule->reg, &base))
			break;
		if (rule->reg != step->arch->dwarf.base || regs->base == KP_REG_LOST)
			return KP_WALK_NO_RULE;
		base = regs->base;
		break;
	case KP_CFA_PLT:
		base += (regs->pc & 15) >= rule->reg ? 8 : 0;
		break;
	default: /* GAP, INVALID, none of ours */
		return KP_WALK_NO_RULE;
	}
	*ret = at(base, rule->cfa_off);
	if (rule->cfa == KP_CFA_DEREF_SP || rule->cfa == KP_CFA_DEREF_FP) {
		end = load(step, *ret, ret);
		if (end != KP_WALK_ON)
			return end;
		*ret = at(*ret, rule->add);
	}
	*ret &= step->arch->frame.data_mask;
	return KP_WALK_ON;
}

/* Whether cfa can be the caller's stack pointer; level: it may also be the frame's own. */
static enum kp_walk_end check_cfa(uint64_t cfa, uint64_t sp, int level)
{
	if (cfa % sizeof(uint64_t))
		return KP_WALK_MISALIGNED;
	if (cfa < sp || (cfa == sp && !level))
		return KP_WALK_NOT_ADVANCING;
	return cfa - sp > KP_CFA_STEP_MAX ? KP_WALK_TOO_FAR : KP_WALK_ON;
}

/* A register that the frame has saved on the stack. */
static enum kp_walk_end load_saved(const struct kp_cfi_step *step, uint32_t kind, int32_t off,
				   const struct kp_regs *regs, uint64_t cfa, uint64_t *ret)
{
	switch (kind) {
	case KP_REG_CFA:
		return load(step, at(cfa, off), ret);
	case KP_REG_SP:
		return load(step, at(regs->sp, off), ret);
	case KP_REG_FP:
		if (regs->fp != KP_REG_LOST)
			return load(step, at(regs->fp, off), ret);
		return KP_WALK_NO_RULE;
	default: /* none of ours */
		return KP_WALK_NO_RULE;
	}
}

/* A register of the caller's that the frame may have left as it is (now), saved or lost. */
static enum kp_walk_end load_kept(const struct kp_cfi_step *step, uint32_t kind, int32_t off,
				  const struct kp_regs *regs, uint64_t cfa, uint64_t now,
				  uint64_t *ret)
{
	*ret = kind == KP_REG_UNDEFINED ? KP_REG_LOST : now;
	if (kind == KP_REG_UNDEFINED || kind == KP_REG_SAME)
		return KP_WALK_ON;
	return load_saved(step, kind, off, regs, cfa, ret);
}

static enum kp_walk_end leave_call(const struct kp_cfi_step *step, const struct kp_table_rule *rule,
				   const struct kp_regs *regs, struct kp_regs *ret)
{
	int in_link_register = rule->ra == KP_REG_SAME;
	enum kp_walk_end end;

	end = find_cfa(step, rule, regs, &ret->sp);
	if (end == KP_WALK_ON)
		end = check_cfa(ret->sp, regs->sp, in_link_register);
	if (end != KP_WALK_ON)
		return end;

	ret->pc = regs->ra;
	if (in_link_register)
		end = ret->pc ? KP_WALK_ON : KP_WALK_NO_RULE;
	else
		end = load_saved(step, rule->ra, rule->ra_off, regs, ret->sp, &ret->pc);
	if (end != KP_WALK_ON)
		return end;
	ret->pc &= step->arch->frame.code_mask;
	if (!ret->pc)
		return KP_WALK_ZERO_PC;
	if (ret->pc < KP_CODE_MIN)
		return KP_WALK_BAD_PC;

	end = load_kept(step, rule->fp, rule->fp_off, regs, ret->sp, regs->fp, &ret->fp);
	/* Hardly any caller needs it. */
	if (step->arch->dwarf.base == KP_DWARF_NONE ||
	    load_kept(step, rule->base, rule->base_off, regs, ret->sp, regs->base, &ret->base) !=
		    KP_WALK_ON)
		ret->base = KP_REG_LOST;
	return end;
}

enum kp_walk_end kp_cfi_step(const struct kp_cfi_step *step, const struct kp_table_rule *rule,
			     struct kp_regs *regs)
{
	struct kp_regs caller = { .ra = 0, .base = KP_REG_LOST };
	enum kp_walk_end end;

	if (rule->cfa == KP_CFA_SIGNAL)
		end = leave_signal(step, regs->sp, &caller);
	else
		end = leave_call(step, rule, regs, &caller);
	if (end == KP_WALK_ON)
		*regs = caller;
	return end;
}
