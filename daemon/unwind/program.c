/*
 * Call frame programs: see program.h. Runs in the daemon. Each instruction is looked at once and
 * expressions are evaluated where they stand, so the time is the length of the program.
 */
#include "daemon/unwind/program.h"

#include <dwarf.h>

/* remember_state within remember_state; compilers do not nest them. */
#define REMEMBER_MAX 16

/* Opcodes with an operand in their low six bits. */
#define PRIMARY 0xc0

/* Later than the dwarf.h of elfutils 0.188. */
#define NEGATE_RA_STATE_WITH_PC 0x2c

struct program {
	const struct kp_cie *cie;
	struct kp_bytes code;
	struct kp_frame_state state;
	uint64_t loc; /* where state holds from, or 0 in a CIE */
	uint64_t end; /* what lies there is not wanted any more */
	struct kp_rows *rows; /* NULL in a CIE */
	struct kp_frame_state remembered[REMEMBER_MAX];
	uint32_t depth;
};

/* Of those that are followed; NULL for any other. */
static struct kp_saved *find_register(const struct kp_cie *cie, struct kp_frame_state *state,
				      uint64_t reg)
{
	const struct kp_dwarf_numbers *dwarf = &cie->traits.arch->dwarf;

	if (reg == dwarf->fp)
		return &state->fp;
	if (reg == dwarf->sp)
		return &state->sp;
	if (reg == dwarf->base)
		return &state->base;
	return reg == cie->ra_column ? &state->ra : NULL;
}

static void save(struct program *p, uint64_t reg, enum kp_saved_how how, int64_t off)
{
	struct kp_saved *saved = find_register(p->cie, &p->state, reg);

	if (saved)
		*saved = (struct kp_saved){ .how = how, .off = off };
}

static int64_t scaled(const struct program *p, uint64_t factored)
{
	return (int64_t)(factored * (uint64_t)p->cie->data_align);
}

static void save_scaled(struct program *p, uint64_t reg, enum kp_saved_how how, uint64_t factored)
{
	save(p, reg, how, scaled(p, factored));
}

static void restore(struct program *p, uint64_t reg)
{
	struct kp_frame_state initial = p->cie->initial;
	struct kp_saved *saved = find_register(p->cie, &p->state, reg);
	const struct kp_saved *before = find_register(p->cie, &initial, reg);

	if (saved && before)
		*saved = *before;
}

static struct kp_bytes take_block(struct program *p)
{
	uint64_t size = kp_bytes_uleb(&p->code);
	struct kp_bytes block = kp_bytes(p->code.at, 0);

	kp_bytes_take(&p->code, size);
	block.end = p->code.at;
	return block;
}

static void save_expression(struct program *p, bool is_value)
{
	const struct kp_arch *arch = p->cie->traits.arch;
	uint64_t reg = kp_bytes_uleb(&p->code);
	struct kp_term term = kp_expression_evaluate(take_block(p), true, arch);
	struct kp_saved *saved = find_register(p->cie, &p->state, reg);

	if (saved)
		*saved = is_value ? kp_saved_of_value(arch, &term)
				  : kp_saved_of_address(arch, &term);
}

static void define_cfa(struct program *p, uint64_t reg, int64_t off)
{
	struct kp_term term = { .kind = KP_TERM_REGISTER, .reg = reg, .add = off };

	p->state.cfa = kp_cfa_of_term(p->cie->traits.arch, &term);
}

/* Both are only defined for a CFA that is a register and an offset. */
static bool define_cfa_offset(struct program *p, int64_t off)
{
	p->state.cfa.off = off;
	return p->state.cfa.kind == KP_CFA_REG;
}

/* As for riscv64 gas has it in a CIE: with nothing said before, the offset is 0. */
static bool define_cfa_register(struct program *p, uint64_t reg)
{
	bool ok = p->state.cfa.kind == KP_CFA_REG || p->state.cfa.kind == KP_CFA_GAP;

	define_cfa(p, reg, p->state.cfa.off);
	return ok;
}

static void define_cfa_expression(struct program *p)
{
	const struct kp_arch *arch = p->cie->traits.arch;
	struct kp_term term = kp_expression_evaluate(take_block(p), false, arch);

	p->state.cfa = kp_cfa_of_term(arch, &term);
}

static int emit(struct program *p)
{
	struct kp_table_rule rule = kp_frame_state_rule(&p->cie->traits, &p->state);

	return kp_rows_put(p->rows, p->loc, &rule);
}

/* The state is complete up to loc; from there on it may change. In a CIE there is no where. */
static int advance_to(struct program *p, uint64_t loc)
{
	int r;

	if (!p->rows || loc == p->loc)
		return 0;
	if (loc < p->loc)
		return -KP_EBADDATA;
	r = emit(p);
	p->loc = loc;
	return r;
}

static int advance(struct program *p, uint64_t factored)
{
	uint64_t by = factored * p->cie->code_align;

	if (factored && by / factored != p->cie->code_align)
		return -KP_EBADDATA;
	return advance_to(p, by > p->end - p->loc ? p->end : p->loc + by);
}

static int set_loc(struct program *p)
{
	uint64_t loc;

	if (!kp_pointer_read(&p->cie->section->base, &p->code, p->cie->encoding, &loc))
		return -KP_EBADDATA;
	return advance_to(p, loc > p->end ? p->end : loc);
}

static int remember(struct program *p)
{
	if (p->depth == REMEMBER_MAX)
		return -KP_EBADDATA;
	p->remembered[p->depth++] = p->state;
	return 0;
}

static int recall(struct program *p)
{
	if (p->depth == 0)
		return -KP_EBADDATA;
	p->state = p->remembered[--p->depth];
	return 0;
}

static int bad_if(bool bad)
{
	return bad ? -KP_EBADDATA : 0;
}

/* The instructions that say where a register is. > 0: not one of them. */
static int register_rule(struct program *p, uint8_t op)
{
	struct kp_bytes *code = &p->code;
	uint64_t reg;

	switch (op) {
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		save_expression(p, op == DW_CFA_val_expression);
		return 0;
	case DW_CFA_offset_extended:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
	case DW_CFA_GNU_negative_offset_extended:
		reg = kp_bytes_uleb(code);
		break;
	default:
		return 1;
	}
	switch (op) {
	case DW_CFA_offset_extended:
		save_scaled(p, reg, KP_SAVED_AT_CFA, kp_bytes_uleb(code));
		break;
	case DW_CFA_offset_extended_sf:
		save_scaled(p, reg, KP_SAVED_AT_CFA, (uint64_t)kp_bytes_sleb(code));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		save_scaled(p, reg, KP_SAVED_AT_CFA, 0 - kp_bytes_uleb(code));
		break;
	case DW_CFA_val_offset:
		save_scaled(p, reg, KP_SAVED_IS_CFA, kp_bytes_uleb(code));
		break;
	case DW_CFA_val_offset_sf:
		save_scaled(p, reg, KP_SAVED_IS_CFA, (uint64_t)kp_bytes_sleb(code));
		break;
	case DW_CFA_restore_extended:
		restore(p, reg);
		break;
	case DW_CFA_undefined:
		save(p, reg, KP_SAVED_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		save(p, reg, KP_SAVED_SAME, 0);
		break;
	default: /* DW_CFA_register */
		kp_bytes_uleb(code);
		save(p, reg, KP_SAVED_ELSEWHERE, 0);
		break;
	}
	return 0;
}

static int extended(struct program *p, uint8_t op)
{
	struct kp_bytes *code = &p->code;
	uint64_t reg;

	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save: /* on aarch64: AARCH64_negate_ra_state; see code_mask */
	case NEGATE_RA_STATE_WITH_PC:
		return 0;
	case DW_CFA_GNU_args_size:
		kp_bytes_uleb(code);
		return 0;
	case DW_CFA_set_loc:
		return set_loc(p);
	case DW_CFA_advance_loc1:
		return advance(p, kp_bytes_u8(code));
	case DW_CFA_advance_loc2:
		return advance(p, kp_bytes_u16(code));
	case DW_CFA_advance_loc4:
		return advance(p, kp_bytes_u32(code));
	case DW_CFA_MIPS_advance_loc8:
		return advance(p, kp_bytes_u64(code));
	case DW_CFA_remember_state:
		return remember(p);
	case DW_CFA_restore_state:
		return recall(p);
	case DW_CFA_def_cfa:
		reg = kp_bytes_uleb(code);
		define_cfa(p, reg, (int64_t)kp_bytes_uleb(code));
		return 0;
	case DW_CFA_def_cfa_sf:
		reg = kp_bytes_uleb(code);
		define_cfa(p, reg, scaled(p, (uint64_t)kp_bytes_sleb(code)));
		return 0;
	case DW_CFA_def_cfa_register:
		return bad_if(!define_cfa_register(p, kp_bytes_uleb(code)));
	case DW_CFA_def_cfa_offset:
		return bad_if(!define_cfa_offset(p, (int64_t)kp_bytes_uleb(code)));
	case DW_CFA_def_cfa_offset_sf:
		return bad_if(!define_cfa_offset(p, scaled(p, (uint64_t)kp_bytes_sleb(code))));
	case DW_CFA_def_cfa_expression:
		define_cfa_expression(p);
		return 0;
	default:
		return bad_if(register_rule(p, op) > 0);
	}
}

static int execute(struct program *p)
{
	while (p->code.at < p->code.end && p->loc < p->end) {
		uint8_t op = kp_bytes_u8(&p->code), low = op & (uint8_t)~PRIMARY;
		int r = 0;

		if ((op & PRIMARY) == DW_CFA_advance_loc)
			r = advance(p, low);
		else if ((op & PRIMARY) == DW_CFA_offset)
			save_scaled(p, low, KP_SAVED_AT_CFA, kp_bytes_uleb(&p->code));
		else if ((op & PRIMARY) == DW_CFA_restore)
			restore(p, low);
		else
			r = extended(p, op);
		if (r == 0 && p->code.cut)
			r = -KP_EBADDATA;
		if (r < 0)
			return r;
	}
	return 0;
}

bool kp_program_start(struct kp_cie *cie)
{
	struct program p = { .cie = cie, .code = cie->program, .end = UINT64_MAX };

	if (execute(&p) < 0)
		return false;
	cie->initial = p.state;
	return true;
}

int kp_program_run(const struct kp_cie *cie, const struct kp_fde *fde, struct kp_rows *rows)
{
	static const struct kp_table_rule invalid = { .cfa = KP_CFA_INVALID };
	struct program p;
	int r, put;

	p.cie = cie;
	p.code = kp_bytes(fde->program, fde->program_size);
	p.state = cie->initial;
	p.loc = fde->start;
	p.end = fde->end;
	p.rows = rows;
	p.depth = 0; /* what is remembered is not cleared: 1.3 KB */
	r = execute(&p);
	if (p.loc >= fde->end || r == -KP_ENOMEM)
		return r;
	put = r < 0 ? kp_rows_put(rows, p.loc, &invalid) : emit(&p);
	return put < 0 ? put : r;
}
