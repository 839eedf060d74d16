/*
 * DWARF expressions with registers as names: see expression.h. Runs in the daemon. One pass over
 * the operations (DWARF 5, 2.5.1; none that jumps is known), so the time is the expression's length.
 */
#include "daemon/unwind/expression.h"

#include <dwarf.h>
#include <elf.h>

#define STACK_MAX 8
#define X86_64_PC 16 /* "return address RA" of the psABI's table 3.36; the pc in an expression */

struct evaluation {
	struct kp_bytes code;
	const struct kp_arch *arch;
	struct kp_term stack[STACK_MAX];
	uint32_t depth;
	bool lost; /* beyond what we know */
};

static void push(struct evaluation *e, struct kp_term term)
{
	if (e->depth == STACK_MAX)
		e->lost = true;
	else
		e->stack[e->depth++] = term;
}

static void push_constant(struct evaluation *e, uint64_t value)
{
	push(e, (struct kp_term){ .kind = KP_TERM_CONSTANT, .add = (int64_t)value });
}

static struct kp_term pop(struct evaluation *e)
{
	if (e->depth == 0) {
		e->lost = true;
		return (struct kp_term){ .kind = KP_TERM_OTHER };
	}
	return e->stack[--e->depth];
}

static bool is_constant(const struct kp_term *term, int64_t value)
{
	return term->kind == KP_TERM_CONSTANT && term->add == value;
}

static int64_t sum(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* base + shift, in which base is the one that has a name in it. */
static struct kp_term plus(struct kp_term base, struct kp_term shift)
{
	if (base.kind == KP_TERM_CONSTANT || base.kind == KP_TERM_PC_WORD) {
		struct kp_term swap = base;

		base = shift;
		shift = swap;
	}
	if (shift.kind == KP_TERM_CONSTANT && base.kind < KP_TERM_PC_LOW) {
		base.add = sum(base.add, shift.add);
		return base;
	}
	if (shift.kind == KP_TERM_PC_WORD && base.kind == KP_TERM_REGISTER) {
		base.kind = KP_TERM_PLT;
		base.off = shift.off;
		return base;
	}
	return (struct kp_term){ .kind = KP_TERM_OTHER };
}

static struct kp_term minus(struct kp_term base, struct kp_term shift)
{
	if (shift.kind != KP_TERM_CONSTANT)
		return (struct kp_term){ .kind = KP_TERM_OTHER };
	shift.add = (int64_t)(0 - (uint64_t)shift.add);
	return plus(base, shift);
}

static struct kp_term deref(struct kp_term address)
{
	if (address.kind != KP_TERM_REGISTER)
		return (struct kp_term){ .kind = KP_TERM_OTHER };
	return (struct kp_term){ .kind = KP_TERM_DEREF, .reg = address.reg, .off = address.add };
}

/* The three operations that only the PLT's expression has (binutils, bfd/elfxx-x86.c). */
static struct kp_term plt_step(const struct evaluation *e, uint8_t op, struct kp_term a,
			       struct kp_term b)
{
	struct kp_term result = { .kind = KP_TERM_OTHER };

	if (e->arch->elf_machine != EM_X86_64)
		return result;
	if (op == DW_OP_and && a.kind == KP_TERM_REGISTER && a.reg == X86_64_PC && a.add == 0 &&
	    is_constant(&b, 15))
		result.kind = KP_TERM_PC_LOW;
	if (op == DW_OP_ge && a.kind == KP_TERM_PC_LOW && b.kind == KP_TERM_CONSTANT &&
	    b.add >= 0 && b.add <= 15)
		result = (struct kp_term){ .kind = KP_TERM_PC_REACHED, .off = b.add };
	if (op == DW_OP_shl && a.kind == KP_TERM_PC_REACHED && is_constant(&b, 3))
		result = (struct kp_term){ .kind = KP_TERM_PC_WORD, .off = a.off };
	return result;
}

static void push_register(struct evaluation *e, uint64_t reg)
{
	push(e, (struct kp_term){
			.kind = KP_TERM_REGISTER,
			.reg = reg,
			.add = kp_bytes_sleb(&e->code),
		});
}

static void binary(struct evaluation *e, uint8_t op)
{
	struct kp_term b = pop(e), a = pop(e);

	if (op == DW_OP_plus)
		push(e, plus(a, b));
	else if (op == DW_OP_minus)
		push(e, minus(a, b));
	else
		push(e, plt_step(e, op, a, b));
}

/* The operations that push a constant which follows them. False: not one of them. */
static bool constant(struct evaluation *e, uint8_t op)
{
	struct kp_bytes *code = &e->code;

	switch (op) {
	case DW_OP_const1u:
		push_constant(e, kp_bytes_u8(code));
		return true;
	case DW_OP_const1s:
		push_constant(e, (uint64_t)(int64_t)(int8_t)kp_bytes_u8(code));
		return true;
	case DW_OP_const2u:
		push_constant(e, kp_bytes_u16(code));
		return true;
	case DW_OP_const2s:
		push_constant(e, (uint64_t)(int64_t)(int16_t)kp_bytes_u16(code));
		return true;
	case DW_OP_const4u:
		push_constant(e, kp_bytes_u32(code));
		return true;
	case DW_OP_const4s:
		push_constant(e, (uint64_t)(int64_t)(int32_t)kp_bytes_u32(code));
		return true;
	case DW_OP_const8u:
	case DW_OP_const8s:
		push_constant(e, kp_bytes_u64(code));
		return true;
	case DW_OP_constu:
		push_constant(e, kp_bytes_uleb(code));
		return true;
	case DW_OP_consts:
		push_constant(e, (uint64_t)kp_bytes_sleb(code));
		return true;
	default:
		return false;
	}
}

static void operate(struct evaluation *e, uint8_t op)
{
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		push_constant(e, op - DW_OP_lit0);
		return;
	}
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		push_register(e, op - DW_OP_breg0);
		return;
	}
	if (constant(e, op))
		return;
	switch (op) {
	case DW_OP_bregx:
		push_register(e, kp_bytes_uleb(&e->code));
		break;
	case DW_OP_plus_uconst:
		push_constant(e, kp_bytes_uleb(&e->code));
		binary(e, DW_OP_plus);
		break;
	case DW_OP_plus:
	case DW_OP_minus:
	case DW_OP_and:
	case DW_OP_ge:
	case DW_OP_shl:
		binary(e, op);
		break;
	case DW_OP_deref:
		push(e, deref(pop(e)));
		break;
	case DW_OP_nop:
		break;
	default:
		e->lost = true;
		break;
	}
}

struct kp_term kp_expression_evaluate(struct kp_bytes code, bool with_cfa,
				      const struct kp_arch *arch)
{
	struct evaluation e = { .code = code, .arch = arch };
	struct kp_term result;

	if (with_cfa)
		push(&e, (struct kp_term){ .kind = KP_TERM_CFA });
	while (!e.lost && e.code.at < e.code.end)
		operate(&e, kp_bytes_u8(&e.code));
	result = pop(&e);
	if (e.lost || e.code.cut)
		result.kind = KP_TERM_OTHER;
	return result;
}
