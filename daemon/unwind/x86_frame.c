/* What instructions do to a frame: see x86_frame.h. Runs in the daemon. */
#include "daemon/unwind/x86_frame.h"

#define FRAME_MAX (1 << 28) /* bytes; a larger one is none */
#define WORD 8
#define IMPOSSIBLE INT32_MAX /* for sp, within a step */
#define SP_BIT (1u << KP_X86_RSP)
#define FP_BIT (1u << KP_X86_RBP)

struct kp_x86_frame kp_x86_frame_called(void)
{
	return (struct kp_x86_frame){ .sp = WORD };
}

struct kp_x86_frame kp_x86_frame_root(enum kp_x86_root root)
{
	return (struct kp_x86_frame){ .root = (uint8_t)root };
}

static void lose_fp(struct kp_x86_frame *frame)
{
	frame->fp_is = KP_X86_FP_OTHER;
	frame->fp = 0;
}

/*
 * The return address is above sp as long as the frame is there. What was pushed and is given up
 * without having been loaded again is no longer saved.
 */
static void set_sp(struct kp_x86_frame *frame, int64_t sp)
{
	if (sp == KP_X86_UNKNOWN) {
		frame->sp = KP_X86_UNKNOWN;
		return;
	}
	if (sp < WORD || sp > FRAME_MAX || sp % WORD) {
		frame->sp = IMPOSSIBLE;
		return;
	}
	if (frame->sp != KP_X86_UNKNOWN && frame->saved > sp && frame->saved <= frame->sp)
		frame->saved = 0;
	frame->sp = (int32_t)sp;
}

static void set_fp(struct kp_x86_frame *frame, int64_t fp)
{
	if (fp == KP_X86_UNKNOWN || fp < -FRAME_MAX || fp > FRAME_MAX) {
		lose_fp(frame);
		return;
	}
	frame->fp_is = KP_X86_FP_FRAME;
	frame->fp = (int32_t)fp;
}

static void move_sp(struct kp_x86_frame *frame, int64_t by)
{
	set_sp(frame, frame->sp == KP_X86_UNKNOWN ? KP_X86_UNKNOWN : frame->sp + by);
}

/* Distance of a register's value from the CFA, or UNKNOWN. */
static int64_t distance(const struct kp_x86_frame *frame, uint8_t reg)
{
	if (reg == KP_X86_RSP)
		return frame->sp;
	if (reg == KP_X86_RBP && frame->fp_is == KP_X86_FP_FRAME)
		return frame->fp;
	return KP_X86_UNKNOWN;
}

/* Distance of the memory operand's address. */
static int64_t distance_of_memory(const struct kp_x86_frame *frame, const struct kp_x86_insn *insn)
{
	int64_t base = distance(frame, insn->base);

	if (base == KP_X86_UNKNOWN || insn->index != KP_X86_NONE || insn->odd_address)
		return KP_X86_UNKNOWN;
	return base - insn->disp;
}

static void set(struct kp_x86_frame *frame, uint8_t reg, int64_t value)
{
	if (reg == KP_X86_RSP)
		set_sp(frame, value);
	else if (reg == KP_X86_RBP)
		set_fp(frame, value);
}

static void save_fp(struct kp_x86_frame *frame, int64_t at)
{
	if (frame->fp_is == KP_X86_FP_CALLERS && !frame->saved && at > WORD && at <= FRAME_MAX &&
	    at % WORD == 0)
		frame->saved = (int32_t)at;
}

static void load_fp(struct kp_x86_frame *frame, int64_t at)
{
	if (frame->saved && at == frame->saved) {
		frame->fp_is = KP_X86_FP_CALLERS;
		frame->fp = 0;
		frame->saved = 0;
	} else {
		lose_fp(frame);
	}
}

static void push(struct kp_x86_frame *frame, const struct kp_x86_insn *insn, bool is_fp)
{
	if (insn->size16) {
		set_sp(frame, KP_X86_UNKNOWN);
		return;
	}
	move_sp(frame, WORD);
	if (is_fp && frame->sp != KP_X86_UNKNOWN)
		save_fp(frame, frame->sp);
}

/* reg: NONE for memory and flags */
static void pop(struct kp_x86_frame *frame, const struct kp_x86_insn *insn, uint8_t reg)
{
	int64_t at = frame->sp;

	if (insn->size16 || reg == KP_X86_RSP) {
		set_sp(frame, KP_X86_UNKNOWN);
		if (reg == KP_X86_RBP)
			lose_fp(frame);
		return;
	}
	if (reg == KP_X86_RBP)
		load_fp(frame, at);
	move_sp(frame, -WORD);
}

static void leave(struct kp_x86_frame *frame)
{
	int64_t at = distance(frame, KP_X86_RBP);

	frame->sp = KP_X86_UNKNOWN;
	load_fp(frame, at);
	set_sp(frame, at == KP_X86_UNKNOWN ? at : at - WORD);
}

/* mov and lea between sp, fp and memory that they point to. False: none of these. */
static bool copy(struct kp_x86_frame *frame, const struct kp_x86_insn *insn)
{
	bool store = insn->opcode == 0x89, load = insn->opcode == 0x8b;

	if (!insn->wide)
		return false;
	if (insn->opcode == 0x8d && insn->mod != 3)
		set(frame, insn->reg, distance_of_memory(frame, insn));
	else if (load && insn->mod == 3)
		set(frame, insn->reg, distance(frame, insn->rm));
	else if (store && insn->mod == 3)
		set(frame, insn->rm, distance(frame, insn->reg));
	else if (store && insn->reg == KP_X86_RBP)
		save_fp(frame, distance_of_memory(frame, insn));
	else if (load && insn->reg == KP_X86_RBP)
		load_fp(frame, distance_of_memory(frame, insn));
	else
		return false;
	return true;
}

/* add and sub of a number. False: something else. */
static bool add(struct kp_x86_frame *frame, const struct kp_x86_insn *insn)
{
	uint8_t group = insn->reg & 7;
	int64_t old;

	if ((insn->opcode != 0x81 && insn->opcode != 0x83) || !insn->wide || insn->mod != 3 ||
	    (group != 0 && group != 5))
		return false;
	old = distance(frame, insn->rm);
	if (old != KP_X86_UNKNOWN)
		set(frame, insn->rm, group == 0 ? old - insn->imm : old + insn->imm);
	else
		set(frame, insn->rm, KP_X86_UNKNOWN);
	return true;
}

/* Instructions that move sp. False: none of these. */
static bool move(struct kp_x86_frame *frame, const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode;

	if (insn->map == KP_X86_0F && !insn->vex && (op == 0xa0 || op == 0xa8)) {
		push(frame, insn, false); /* fs, gs */
		return true;
	}
	if (insn->map == KP_X86_0F && !insn->vex && (op == 0xa1 || op == 0xa9)) {
		pop(frame, insn, KP_X86_NONE);
		return true;
	}
	if (insn->map != KP_X86_ONE_BYTE)
		return false;
	if (op >= 0x50 && op <= 0x57)
		push(frame, insn, insn->rm == KP_X86_RBP);
	else if (op == 0x68 || op == 0x6a || op == 0x9c || (op == 0xff && (insn->reg & 7) == 6))
		push(frame, insn, op == 0xff && insn->mod == 3 && insn->rm == KP_X86_RBP);
	else if (op >= 0x58 && op <= 0x5f)
		pop(frame, insn, insn->rm);
	else if (op == 0x8f)
		pop(frame, insn, insn->mod == 3 ? insn->rm : KP_X86_NONE);
	else if (op == 0x9d)
		pop(frame, insn, KP_X86_NONE);
	else if (op == 0xc8) { /* enter: nobody writes it */
		set_sp(frame, KP_X86_UNKNOWN);
		lose_fp(frame);
	} else if (op == 0xc9)
		leave(frame);
	else
		return copy(frame, insn) || add(frame, insn);
	return true;
}

bool kp_x86_frame_step(struct kp_x86_frame *frame, const struct kp_x86_insn *insn, uint16_t writes)
{
	if (frame->root != KP_X86_CALLED)
		return true;
	if (!move(frame, insn)) {
		if (writes & SP_BIT)
			set_sp(frame, KP_X86_UNKNOWN);
		if (writes & FP_BIT)
			lose_fp(frame);
	}
	if (frame->sp == IMPOSSIBLE) {
		frame->sp = KP_X86_UNKNOWN;
		return false;
	}
	return true;
}

struct kp_x86_frame kp_x86_frame_meet(const struct kp_x86_frame *a, const struct kp_x86_frame *b)
{
	struct kp_x86_frame both = *a;

	if (a->root != b->root) {
		both = kp_x86_frame_called();
		both.sp = KP_X86_UNKNOWN;
		lose_fp(&both);
		return both;
	}
	if (a->sp != b->sp)
		both.sp = KP_X86_UNKNOWN;
	if (a->fp_is != b->fp_is || a->fp != b->fp)
		lose_fp(&both);
	if (a->saved != b->saved)
		both.saved = 0;
	return both;
}

bool kp_x86_frame_is_left(const struct kp_x86_frame *frame)
{
	return frame->root == KP_X86_CALLED && (frame->sp == WORD || frame->sp == KP_X86_UNKNOWN);
}

/*
 * Where the psABI's frame pointer is, it is the better guide: other conventions than C's have
 * functions take their arguments off the stack, and then sp is not where it was before the call.
 */
static bool has_standard_frame(const struct kp_x86_frame *frame)
{
	return frame->fp_is == KP_X86_FP_FRAME && frame->fp == 2 * WORD && frame->saved == 2 * WORD;
}

/* rbx, the base register, is not followed: nothing that needs it comes without FDEs. */
struct kp_table_rule kp_x86_frame_rule(const struct kp_x86_frame *frame)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_GAP };

	if (frame->root != KP_X86_CALLED) {
		rule.cfa = frame->root == KP_X86_ROOT ? KP_CFA_STOP : KP_CFA_SIGNAL;
		return rule;
	}
	if (frame->sp != KP_X86_UNKNOWN && !has_standard_frame(frame)) {
		rule.cfa = KP_CFA_SP;
		rule.cfa_off = frame->sp;
	} else if (frame->fp_is == KP_X86_FP_FRAME) {
		rule.cfa = KP_CFA_FP;
		rule.cfa_off = frame->fp;
	} else {
		return rule;
	}
	rule.ra = KP_REG_CFA;
	rule.ra_off = -WORD;
	rule.base = KP_REG_UNDEFINED;
	rule.fp = KP_REG_UNDEFINED;
	if (frame->saved) {
		rule.fp = KP_REG_CFA;
		rule.fp_off = -frame->saved;
	} else if (frame->fp_is == KP_X86_FP_CALLERS) {
		rule.fp = KP_REG_SAME;
	}
	return rule;
}
