/*
 * The walk of a stack: for each frame a rule of its module's table, else the frame pointer.
 *
 * Runs in the target's signal handler (and in the daemon): no libc, no TLS, no lock, bounded by max
 * frames; memory is read and rules are found through the callbacks only.
 *
 * A rule has the last word. It is exact for each instruction, so where a step by it fails, or where
 * it says what only the interrupted frame could have used, the stack or the registers are not what
 * the code left there; the frame pointer, which is just another register to such code, would be a
 * guess. It is asked only where there is no rule.
 */
#include "common/unwind/walk.h"

/* Handlers that were interrupted by other signals; a stack that shows more is running in circles. */
#define SIGNALS_MAX 8

/* Where a walk has come to. */
struct place {
	struct kp_regs *regs;
	uint8_t how; /* enum kp_walk_how */
	uint8_t signals; /* signal frames so far */
	uint8_t switches; /* steps to other stacks so far */
	uint8_t first; /* the interrupted thread's own registers */
	uint8_t interrupted; /* pc is an instruction, not a return address; ra is known */
	uint8_t sp_is_known; /* else it is only a lower bound */
	uint8_t by_rule; /* a rule has led here */
	uint8_t begins; /* pc is where a function begins that nobody has called */
};

/* Inline, like the others here, to spare the handler stack frames. */
static inline __attribute__((always_inline)) void arrive(struct place *place, uint32_t how,
							 int interrupted, int sp_is_known)
{
	place->how |= how;
	place->first = 0;
	place->interrupted = interrupted;
	place->sp_is_known = sp_is_known;
}

static inline __attribute__((always_inline)) enum kp_walk_end step_by_fp(const struct kp_walk *walk,
									 struct place *place)
{
	const struct kp_frame_layout *layout = &walk->arch->frame;
	enum kp_walk_end end = kp_fp_step(layout, place->regs, place->interrupted, walk->read_word,
					  walk->read_ctx);

	if (end == KP_WALK_ON || kp_walk_is_whole(end))
		arrive(place, KP_HOW_FP, 0, (int)layout->sp_after_exact);
	place->by_rule = 0;
	return end;
}

/*
 * A step to where the frame pointer leads, be it on another stack. Who goes over to another stack by
 * such code has come from code that is known.
 */
static __attribute__((noinline)) enum kp_walk_end step_to_stack(const struct kp_walk *walk,
								struct place *place)
{
	const struct kp_frame_layout *layout = &walk->arch->frame;
	struct kp_regs caller = *place->regs;
	struct kp_table_rule rule;
	enum kp_walk_end end;

	if (place->switches++ == KP_FP_SWITCHES_MAX)
		return KP_WALK_NOT_ADVANCING;
	end = kp_fp_switch(layout, &caller, walk->read_word, walk->read_ctx);
	if (end == KP_WALK_ON &&
	    (walk->find_rule(walk->find_ctx, caller.pc - 1, &rule) || rule.cfa == KP_CFA_GAP))
		return KP_WALK_BAD_PC;
	if (end == KP_WALK_ON)
		*place->regs = caller;
	if (end == KP_WALK_ON || kp_walk_is_whole(end))
		arrive(place, KP_HOW_FP, 0, (int)layout->sp_after_exact);
	place->by_rule = 0;
	return end;
}

/*
 * The interrupted function has no frame yet, or none any more, and the frame pointer of its caller
 * is on another stack: then the caller is one that went over, and its rule says so. 0 if it is not.
 */
static __attribute__((noinline)) int step_off_entry(const struct kp_walk *walk, struct place *place)
{
	int has_link_register = walk->arch->signal.ra_off != 0;
	uint64_t back = place->regs->ra;
	struct kp_table_rule rule;

	if (!has_link_register && (place->regs->sp % sizeof(back) ||
				   walk->read_word(walk->read_ctx, place->regs->sp, &back)))
		return 0;
	back &= walk->arch->frame.code_mask;
	if (back < KP_CODE_MIN || walk->find_rule(walk->find_ctx, back - 1, &rule) ||
	    (rule.cfa != KP_CFA_SWITCH && rule.cfa != KP_CFA_LEFT && rule.cfa != KP_CFA_STOP))
		return 0;
	place->regs->pc = back;
	place->regs->sp += has_link_register ? 0 : sizeof(back);
	place->regs->ra = 0;
	place->regs->base = KP_REG_LOST;
	arrive(place, KP_HOW_TABLE, 0, 1);
	place->by_rule = 0;
	return 1;
}

static inline __attribute__((always_inline)) enum kp_walk_end
step_by_chain(const struct kp_walk *walk, struct place *place)
{
	int interrupted = place->interrupted;
	enum kp_walk_end end = step_by_fp(walk, place);

	if (interrupted && (end == KP_WALK_NOT_ADVANCING || end == KP_WALK_TOO_FAR) &&
	    step_off_entry(walk, place))
		return KP_WALK_ON;
	return end;
}

static inline __attribute__((always_inline)) enum kp_walk_end
step_by_rule(const struct kp_walk *walk, struct place *place, const struct kp_table_rule *rule,
	     uint32_t how)
{
	const struct kp_cfi_step step = {
		.arch = walk->arch,
		.read_word = walk->read_word,
		.ctx = walk->read_ctx,
		.leaf_register = place->first ? walk->leaf_register : 0,
		.leaf_ctx = walk->leaf_ctx,
	};
	int signal = rule->cfa == KP_CFA_SIGNAL;
	enum kp_walk_end end;

	if (signal && place->signals++ == SIGNALS_MAX)
		return KP_WALK_NOT_ADVANCING;
	end = kp_cfi_step(&step, rule, place->regs);
	if (end == KP_WALK_ON || kp_walk_is_whole(end))
		arrive(place, signal ? how | KP_HOW_SIGNAL : how, signal, 1);
	place->by_rule = 1;
	return end;
}

/*
 * Whether the code at pc is a signal's restorer that has no rule: musl's, Go's, aarch64's vdso. The
 * look at uc_link spares almost every other frame the one at its code, which is on another page.
 */
static __attribute__((noinline)) int is_restorer(const struct kp_walk *walk,
						 const struct place *place)
{
	const struct kp_signal_frame *frame = &walk->arch->signal;
	uint64_t link_addr = place->regs->sp + frame->link_off;
	uint64_t word = 1;

	if (!place->sp_is_known || link_addr % 8 ||
	    walk->read_word(walk->read_ctx, link_addr, &word) || word)
		return 0;
	for (uint32_t i = 0; i < frame->restorer_size; i++) {
		uint64_t addr = place->regs->pc + i;

		if ((!i || addr % 8 == 0) &&
		    walk->read_word(walk->read_ctx, addr & ~UINT64_C(7), &word))
			return 0;
		if ((uint8_t)(word >> addr % 8 * 8) != frame->restorer_bytes[i])
			return 0;
	}
	return 1;
}

/*
 * Whether a function begins at a return address that has nothing before it: no call has left that
 * there. Who makes a stack by hand, as makecontext() does, puts it there for the first function of
 * all to return to. What frame pointers have led to may be any pointer to a function.
 */
static __attribute__((noinline)) int is_beginning(const struct kp_walk *walk,
						  const struct place *place)
{
	struct kp_table_rule rule;

	return place->by_rule && !place->interrupted &&
	       walk->find_rule(walk->find_ctx, place->regs->pc, &rule) == 0 &&
	       rule.cfa != KP_CFA_GAP;
}

/* The rule is that the frame pointer tells the caller. */
static int is_chain(const struct kp_table_rule *rule)
{
	return rule->cfa == KP_CFA_CHAIN || rule->cfa == KP_CFA_SWITCH || rule->cfa == KP_CFA_LEFT;
}

static int needs_sp(const struct kp_table_rule *rule)
{
	return rule->cfa == KP_CFA_SP || rule->cfa == KP_CFA_DEREF_SP || rule->cfa == KP_CFA_PLT ||
	       rule->cfa == KP_CFA_SIGNAL || rule->fp == KP_REG_SP || rule->ra == KP_REG_SP;
}

static inline __attribute__((always_inline)) enum kp_walk_end step(const struct kp_walk *walk,
								   struct place *place)
{
	struct kp_table_rule rule;
	uint32_t how = KP_HOW_TABLE;
	int has_table;

	if (walk->mode == KP_UNWIND_FP)
		return step_by_fp(walk, place);
	has_table = walk->find_rule &&
		    !walk->find_rule(walk->find_ctx, place->regs->pc - !place->interrupted, &rule);
	if (!has_table)
		rule.cfa = KP_CFA_GAP;
	if (rule.cfa == KP_CFA_LEFT)
		rule.cfa = place->interrupted ? KP_CFA_SWITCH : KP_CFA_STOP;
	if ((rule.cfa == KP_CFA_GAP || rule.cfa == KP_CFA_CHAIN) && is_restorer(walk, place)) {
		rule.cfa = KP_CFA_SIGNAL;
		how = 0;
	}
	/* Without sp most rules are of no use; this CPU's frame pointers have brought us here. */
	if (rule.cfa != KP_CFA_GAP && !is_chain(&rule) && (place->sp_is_known || !needs_sp(&rule)))
		return step_by_rule(walk, place, &rule, how);
	if (has_table && rule.cfa == KP_CFA_GAP && is_beginning(walk, place)) {
		place->begins = 1;
		return KP_WALK_OUTERMOST;
	}

	if (walk->mode == KP_UNWIND_TABLE || place->regs->fp == KP_REG_LOST)
		return KP_WALK_NO_RULE;
	if (rule.cfa == KP_CFA_SWITCH)
		return step_to_stack(walk, place);
	if (rule.cfa == KP_CFA_CHAIN)
		return step_by_chain(walk, place);
	/*
	 * Hand-written code in a module that has a table: the frame pointer is whatever its caller
	 * keeps there, and 0 is a common number. Only as a caller, which has called on with it, can
	 * such code be the outermost frame.
	 */
	if (has_table && place->interrupted && !place->regs->fp)
		return KP_WALK_NO_RULE;
	return step_by_fp(walk, place);
}

enum kp_walk_end kp_walk(const struct kp_walk *walk, struct kp_regs regs, uint64_t *pc,
			 uint32_t max, uint32_t *ret_n, uint32_t *ret_how)
{
	struct place place = {
		.regs = &regs,
		.first = 1,
		.interrupted = 1,
		.sp_is_known = 1,
	};
	enum kp_walk_end end;
	uint32_t n = 0;

	regs.pc &= walk->arch->frame.code_mask;
	pc[n++] = regs.pc;
	for (;;) {
		end = step(walk, &place);
		if (end != KP_WALK_ON)
			break;
		if (n >= max) {
			end = KP_WALK_DEPTH;
			break;
		}
		pc[n++] = regs.pc + (uint64_t)place.interrupted;
	}
	pc[n - 1] += (uint64_t)place.begins;
	*ret_n = n;
	*ret_how = place.how;
	return end;
}
