/* Values on a path: see x86_values.h. Runs in the daemon. */
#include "daemon/unwind/x86_values.h"

#define LIMIT_MAX 0x10000 /* entries of a table */
#define CALLER_SAVED 0x0fc7 /* rax, rcx, rdx, rsi, rdi, r8 to r11 */

static const struct kp_x86_value anything;

/* The operands of a mov, also with extension, between registers. False: none. */
static bool is_copy(const struct kp_x86_insn *insn, uint8_t *ret_from, uint8_t *ret_to)
{
	bool plain = insn->map == KP_X86_ONE_BYTE, byte = false;
	uint8_t op = insn->opcode;

	if (insn->mod != 3 || !insn->has_modrm || insn->vex || insn->size16)
		return false;
	*ret_from = insn->rm;
	*ret_to = insn->reg;
	if (plain && op == 0x89) {
		*ret_from = insn->reg;
		*ret_to = insn->rm;
		return true;
	}
	if (!plain)
		byte = op == 0xb6 || op == 0xbe;
	/* Second bytes of registers are none that anything is known of. */
	if (byte && !insn->has_rex && insn->rm >= 4)
		return false;
	return plain ? op == 0x8b || op == 0x63
		     : insn->map == KP_X86_0F && (byte || op == 0xb7 || op == 0xbf);
}

/* A table's entry: the value that loading the memory operand gives. size: 4 (movslq) or 8. */
static struct kp_x86_value entry(const struct kp_x86_values *values, const struct kp_x86_insn *insn,
				 uint8_t size)
{
	struct kp_x86_value value = anything, base = anything;

	if (insn->mod == 3 || insn->scale != size || insn->index == KP_X86_NONE ||
	    insn->odd_address || values->reg[insn->index].is != KP_X86_BOUNDED)
		return value;
	if (insn->base < 16)
		base = values->reg[insn->base];
	if (insn->base < 16 && base.is != KP_X86_CONSTANT)
		return value;
	value.is = size == 4 ? KP_X86_OFFSET : KP_X86_POINTER;
	value.bound = values->reg[insn->index].bound;
	value.address = base.address + (uint64_t)insn->disp;
	return value;
}

/* OFFSET + CONSTANT */
static struct kp_x86_value sum(const struct kp_x86_value *a, const struct kp_x86_value *b)
{
	struct kp_x86_value value = *a;

	if (a->is != KP_X86_OFFSET || b->is != KP_X86_CONSTANT || a->address != b->address)
		return anything;
	value.is = KP_X86_TARGET;
	return value;
}

/* What the instruction leaves in its one destination. False: nothing that is known. */
static bool evaluate(const struct kp_x86_values *values, const struct kp_x86_insn *insn,
		     uint64_t next, uint8_t *ret_to, struct kp_x86_value *ret)
{
	uint8_t op = insn->opcode, from;

	*ret = anything;
	*ret_to = insn->reg;
	if (is_copy(insn, &from, ret_to)) {
		*ret = values->reg[from];
		/* Only numbers stay what they are when they are cut or extended. */
		return ret->is == KP_X86_BOUNDED || insn->wide;
	}
	if (insn->map != KP_X86_ONE_BYTE)
		return false;
	if (op == 0x8d && insn->base == KP_X86_RIP) {
		ret->is = KP_X86_CONSTANT;
		ret->address = next + (uint64_t)insn->disp;
	} else if (op >= 0xb8 && op <= 0xbf && !insn->size16) {
		*ret_to = insn->rm;
		ret->is = KP_X86_CONSTANT;
		ret->address = insn->wide ? (uint64_t)insn->imm : (uint32_t)insn->imm;
	} else if (op == 0xc7 && insn->mod == 3 && insn->wide) {
		*ret_to = insn->rm;
		ret->is = KP_X86_CONSTANT;
		ret->address = (uint64_t)insn->imm;
	} else if (op == 0x63 && insn->wide) {
		*ret = entry(values, insn, 4);
	} else if (op == 0x8b && insn->wide) {
		*ret = entry(values, insn, 8);
	} else if ((op == 0x01 || op == 0x03) && insn->wide && insn->mod == 3) {
		const struct kp_x86_value *a = &values->reg[insn->reg];
		const struct kp_x86_value *b = &values->reg[insn->rm];

		*ret_to = op == 0x01 ? insn->rm : insn->reg;
		*ret = a->is == KP_X86_OFFSET ? sum(a, b) : sum(b, a);
	} else if ((op == 0x83 || op == 0x81) && (insn->reg & 7) == 4 && insn->mod == 3 &&
		   insn->imm >= 0 && insn->imm < LIMIT_MAX) {
		*ret_to = insn->rm; /* and */
		ret->is = KP_X86_BOUNDED;
		ret->bound = (uint32_t)insn->imm;
	} else if (op == 0x25 && insn->imm >= 0 && insn->imm < LIMIT_MAX) {
		*ret_to = KP_X86_RAX;
		ret->is = KP_X86_BOUNDED;
		ret->bound = (uint32_t)insn->imm;
	}
	return ret->is != KP_X86_ANYTHING;
}

/* cmp of a register with a number. */
static bool compare(struct kp_x86_values *values, const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode, reg = insn->rm;
	bool byte = op == 0x80 || op == 0x3c;
	int64_t imm = byte ? insn->imm & 0xff : insn->imm;

	if (insn->map != KP_X86_ONE_BYTE)
		return false;
	if (op == 0x3c || op == 0x3d)
		reg = KP_X86_RAX;
	else if ((op != 0x80 && op != 0x81 && op != 0x83) || (insn->reg & 7) != 7 || insn->mod != 3)
		return false;
	values->compared = 0;
	if (imm < 0 || imm >= LIMIT_MAX || (byte && !insn->has_rex && reg >= 4))
		return true;
	values->compared = (uint16_t)(1u << reg);
	values->limit = (uint32_t)imm;
	return true;
}

/* mov and lea leave the flags; of the rest it is not asked. */
static bool keeps_flags(const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode;

	if (insn->map == KP_X86_0F)
		return op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf || op == 0x1f ||
		       (op >= 0x10 && op <= 0x17) || op == 0x28 || op == 0x29 ||
		       (op >= 0x40 && op <= 0x4f) || op == 0x6f || op == 0x7f ||
		       (op >= 0x80 && op <= 0x9f);
	return insn->map == KP_X86_ONE_BYTE &&
	       ((op >= 0x88 && op <= 0x8b) || op == 0x8d || op == 0x63 || op == 0xc6 ||
		op == 0xc7 || (op >= 0xb0 && op <= 0xbf) || (op >= 0x50 && op <= 0x5f) ||
		(op >= 0x70 && op <= 0x7f) || op == 0x90);
}

void kp_x86_values_step(struct kp_x86_values *values, const struct kp_x86_insn *insn, uint64_t next,
			uint16_t writes)
{
	struct kp_x86_value value;
	uint8_t to, from, unused;
	bool known, copied;

	if (compare(values, insn))
		return;
	if (!keeps_flags(insn))
		values->compared = 0;
	known = evaluate(values, insn, next, &to, &value);
	copied = is_copy(insn, &from, &unused) && (values->compared & 1u << from);
	values->compared &= (uint16_t)~writes;
	for (int i = 0; i < 16; i++)
		if (writes & 1u << i)
			values->reg[i] = anything;
	if (known)
		values->reg[to] = value;
	if (copied)
		values->compared |= (uint16_t)(1u << unused);
}

static void bound(struct kp_x86_values *values, uint32_t most)
{
	for (int i = 0; i < 16; i++)
		if (values->compared & 1u << i)
			values->reg[i] =
				(struct kp_x86_value){ .is = KP_X86_BOUNDED, .bound = most };
}

/* Unsigned conditions: 2 below, 3 not below, 6 not above, 7 above. */
void kp_x86_values_branch(struct kp_x86_values *values, uint8_t condition, bool taken)
{
	if ((condition == 7 && !taken) || (condition == 6 && taken))
		bound(values, values->limit);
	if (((condition == 3 && !taken) || (condition == 2 && taken)) && values->limit > 0)
		bound(values, values->limit - 1);
}

void kp_x86_values_call(struct kp_x86_values *values)
{
	for (int i = 0; i < 16; i++)
		if (CALLER_SAVED & 1u << i)
			values->reg[i] = anything;
	values->compared = 0;
}

struct kp_x86_value kp_x86_values_target(const struct kp_x86_values *values,
					 const struct kp_x86_insn *insn)
{
	struct kp_x86_value value = anything;

	if (insn->mod != 3)
		value = entry(values, insn, 8);
	else if (values->reg[insn->rm].is == KP_X86_TARGET ||
		 values->reg[insn->rm].is == KP_X86_POINTER)
		value = values->reg[insn->rm];
	return value;
}
