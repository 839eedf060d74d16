/* Each call frame instruction, and each kind of rule that comes of them. */
#include "tests/support/test.h"
#include "tests/unit/unwind/framewriter.h"

#include "common/cleanup.h"

#include <dwarf.h>

#define X86 EM_X86_64
#define ARM EM_AARCH64
#define RISCV EM_RISCV

/* What GCC's CIEs say: at a function's first instruction. */
#define X86_START BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1)
#define LINK_START BYTES(DW_CFA_def_cfa, 31, 0)
#define RISCV_START BYTES(DW_CFA_def_cfa, 2, 0)

#define CALL_FRAME(off)                                                                            \
	{                                                                                          \
		.cfa = KP_CFA_SP, .cfa_off = (off), .ra = KP_REG_CFA, .ra_off = -8                 \
	}
#define INVALID                                                                                    \
	{                                                                                          \
		.cfa = KP_CFA_INVALID                                                              \
	}
#define ADVANCE(n) (DW_CFA_advance_loc | (n))

struct example {
	const char *name;
	uint16_t machine;
	bool signal; /* augmentation S */
	struct framewriter_bytes program; /* of the FDE; the CIE's is the machine's */
	struct kp_table_rule rule; /* at its last byte */
};

static struct kp_table_rule rule_of(const struct example *example)
{
	struct framewriter w = { .machine = example->machine };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	struct framewriter_bytes start = example->machine == X86     ? X86_START
					 : example->machine == RISCV ? RISCV_START
								     : LINK_START;
	size_t cie =
		example->signal ? framewriter_signal_cie(&w, start) : framewriter_cie(&w, start);

	framewriter_fde(&w, cie, 0x100, 0x100, example->program);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.r, 0, "%s: %s", example->name, table.err.text);
	cr_assert_eq(table.stats.fdes, 1);
	cr_assert_eq(table.stats.bad_fdes, 0, "%s", example->name);
	return framewriter_rule(&table, 0x1ff);
}

static void check(const struct example *example, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct kp_table_rule rule = rule_of(&example[i]);

		cr_assert_arr_eq(&rule, &example[i].rule, sizeof(rule),
				 "%s: cfa %u reg %u %d add %d, fp %u %d, ra %u %d", example[i].name,
				 rule.cfa, rule.reg, rule.cfa_off, rule.add, rule.fp, rule.fp_off,
				 rule.ra, rule.ra_off);
	}
}

#define CHECK(examples) check(examples, sizeof(examples) / sizeof(*(examples)))

Test(instructions, define_the_cfa)
{
	const struct example examples[] = {
		{ "nothing", X86, 0, BYTES(DW_CFA_nop), CALL_FRAME(8) },
		{ "def_cfa_offset", X86, 0, BYTES(DW_CFA_def_cfa_offset, 0x90, 1),
		  CALL_FRAME(144) },
		{ "def_cfa_offset_sf", X86, 0, BYTES(DW_CFA_def_cfa_offset_sf, 0x7e),
		  CALL_FRAME(16) },
		{ "def_cfa_register",
		  X86,
		  0,
		  BYTES(DW_CFA_def_cfa_register, 6),
		  { .cfa = KP_CFA_FP, .cfa_off = 8, .ra = KP_REG_CFA, .ra_off = -8 } },
		{ "def_cfa of another register",
		  X86,
		  0,
		  BYTES(DW_CFA_def_cfa, 10, 0),
		  { .cfa = KP_CFA_REG, .reg = 10, .ra = KP_REG_CFA, .ra_off = -8 } },
		{ "def_cfa_sf",
		  X86,
		  0,
		  BYTES(DW_CFA_def_cfa_sf, 6, 0x7d),
		  { .cfa = KP_CFA_FP, .cfa_off = 24, .ra = KP_REG_CFA, .ra_off = -8 } },
		{ "def_cfa with an offset that does not fit", X86, 0,
		  BYTES(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x08), INVALID },
		{ "def_cfa with a register that does not fit", X86, 0,
		  BYTES(DW_CFA_def_cfa, 0x80, 0x02, 8), INVALID },
	};

	CHECK(examples);
}

Test(instructions, say_where_the_frame_pointer_is)
{
#define FP(kind, off)                                                                              \
	{                                                                                          \
		.cfa = KP_CFA_SP, .cfa_off = 8, .fp = (kind), .fp_off = (off), .ra = KP_REG_CFA,   \
		.ra_off = -8                                                                       \
	}
	const struct example examples[] = {
		{ "offset", X86, 0, BYTES(DW_CFA_offset | 6, 2), FP(KP_REG_CFA, -16) },
		{ "offset_extended", X86, 0, BYTES(DW_CFA_offset_extended, 6, 3),
		  FP(KP_REG_CFA, -24) },
		{ "offset_extended_sf", X86, 0, BYTES(DW_CFA_offset_extended_sf, 6, 0x7f),
		  FP(KP_REG_CFA, 8) },
		{ "GNU_negative_offset_extended", X86, 0,
		  BYTES(DW_CFA_GNU_negative_offset_extended, 6, 2), FP(KP_REG_CFA, 16) },
		{ "restore", X86, 0, BYTES(DW_CFA_offset | 6, 2, DW_CFA_restore | 6),
		  FP(KP_REG_SAME, 0) },
		{ "restore_extended", X86, 0,
		  BYTES(DW_CFA_offset | 6, 2, DW_CFA_restore_extended, 6), FP(KP_REG_SAME, 0) },
		{ "same_value", X86, 0, BYTES(DW_CFA_offset | 6, 2, DW_CFA_same_value, 6),
		  FP(KP_REG_SAME, 0) },
		{ "undefined", X86, 0, BYTES(DW_CFA_undefined, 6), FP(KP_REG_UNDEFINED, 0) },
		{ "register", X86, 0, BYTES(DW_CFA_register, 6, 3), FP(KP_REG_UNDEFINED, 0) },
		{ "val_offset", X86, 0, BYTES(DW_CFA_val_offset, 6, 2), FP(KP_REG_UNDEFINED, 0) },
		{ "val_offset_sf", X86, 0, BYTES(DW_CFA_val_offset_sf, 6, 2),
		  FP(KP_REG_UNDEFINED, 0) },
		{ "expression of fp", X86, 0, BYTES(DW_CFA_expression, 6, 2, DW_OP_breg6, 0x78),
		  FP(KP_REG_FP, -8) },
		{ "expression of sp", X86, 0, BYTES(DW_CFA_expression, 6, 2, DW_OP_breg7, 0x10),
		  FP(KP_REG_SP, 16) },
		{ "expression of the CFA", X86, 0,
		  BYTES(DW_CFA_expression, 6, 3, DW_OP_const1u, 32, DW_OP_minus),
		  FP(KP_REG_CFA, -32) },
		{ "expression of another register", X86, 0,
		  BYTES(DW_CFA_expression, 6, 2, DW_OP_breg3, 0), FP(KP_REG_UNDEFINED, 0) },
		{ "val_expression that reads memory", X86, 0,
		  BYTES(DW_CFA_val_expression, 6, 3, DW_OP_breg7, 0x18, DW_OP_deref),
		  FP(KP_REG_SP, 24) },
		{ "val_expression that does not", X86, 0,
		  BYTES(DW_CFA_val_expression, 6, 2, DW_OP_breg7, 0x18), FP(KP_REG_UNDEFINED, 0) },
		{ "an offset that does not fit", X86, 0,
		  BYTES(DW_CFA_offset | 6, 0x80, 0x80, 0x80, 0x80, 0x08), FP(KP_REG_UNDEFINED, 0) },
	};

	CHECK(examples);
}

Test(instructions, say_where_the_return_address_is)
{
#define SP0 .cfa = KP_CFA_SP, .cfa_off = 8
	const struct example examples[] = {
		{ "undefined", X86, 0, BYTES(DW_CFA_undefined, 16), { .cfa = KP_CFA_STOP } },
		{ "same_value has no meaning", X86, 0, BYTES(DW_CFA_same_value, 16), INVALID },
		{ "in another register", X86, 0, BYTES(DW_CFA_register, 16, 1), INVALID },
		{ "expression of sp",
		  X86,
		  0,
		  BYTES(DW_CFA_expression, 16, 2, DW_OP_breg7, 40),
		  { SP0, .ra = KP_REG_SP, .ra_off = 40 } },
		{ "expression of fp",
		  X86,
		  0,
		  BYTES(DW_CFA_expression, 16, 2, DW_OP_breg6, 8),
		  { SP0, .ra = KP_REG_FP, .ra_off = 8 } },
		{ "in the link register", ARM, 0, BYTES(DW_CFA_nop), { .cfa = KP_CFA_SP } },
		{ "in the link register", RISCV, 0, BYTES(DW_CFA_nop), { .cfa = KP_CFA_SP } },
		{ "saved",
		  ARM,
		  0,
		  BYTES(DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 29, 4, DW_CFA_offset | 30, 3),
		  { .cfa = KP_CFA_SP,
		    .cfa_off = 32,
		    .fp = KP_REG_CFA,
		    .fp_off = -32,
		    .ra = KP_REG_CFA,
		    .ra_off = -24 } },
		{ "saved, with a frame pointer",
		  RISCV,
		  0,
		  BYTES(DW_CFA_def_cfa, 8, 0, DW_CFA_offset | 8, 2, DW_CFA_offset | 1, 1),
		  { .cfa = KP_CFA_FP,
		    .fp = KP_REG_CFA,
		    .fp_off = -16,
		    .ra = KP_REG_CFA,
		    .ra_off = -8 } },
		{ "restored",
		  ARM,
		  0,
		  BYTES(DW_CFA_offset | 30, 3, DW_CFA_restore | 30),
		  { .cfa = KP_CFA_SP } },
	};

	CHECK(examples);
}

Test(instructions, say_where_the_base_register_is)
{
#define BASE(kind, off)                                                                            \
	{                                                                                          \
		.cfa = KP_CFA_SP, .cfa_off = 8, .ra = KP_REG_CFA, .ra_off = -8, .base = (kind),    \
		.base_off = (off)                                                                  \
	}
	const struct example examples[] = {
		{ "offset", X86, 0, BYTES(DW_CFA_offset | 3, 2), BASE(KP_REG_CFA, -16) },
		{ "restore", X86, 0, BYTES(DW_CFA_offset | 3, 2, DW_CFA_restore | 3),
		  BASE(KP_REG_SAME, 0) },
		{ "expression", X86, 0, BYTES(DW_CFA_expression, 3, 2, DW_OP_breg6, 0x78),
		  BASE(KP_REG_FP, -8) },
		{ "register", X86, 0, BYTES(DW_CFA_register, 3, 12), BASE(KP_REG_UNDEFINED, 0) },
		{ "none here", ARM, 0, BYTES(DW_CFA_offset | 19, 2), { .cfa = KP_CFA_SP } },
		{ "none here", RISCV, 0, BYTES(DW_CFA_offset | 9, 2), { .cfa = KP_CFA_SP } },
	};

	CHECK(examples);
}

Test(instructions, that_do_not_concern_the_walk_are_passed_over)
{
	const struct example examples[] = {
		{ "other registers", X86, 0,
		  BYTES(DW_CFA_offset | 13, 4, DW_CFA_expression, 12, 2, DW_OP_breg7, 0,
			DW_CFA_undefined, 1, DW_CFA_register, 13, 12, DW_CFA_restore | 13,
			DW_CFA_val_offset, 13, 2),
		  CALL_FRAME(8) },
		{ "GNU_args_size", X86, 0, BYTES(DW_CFA_GNU_args_size, 0x80, 1), CALL_FRAME(8) },
		{ "AARCH64_negate_ra_state",
		  ARM,
		  0,
		  BYTES(DW_CFA_AARCH64_negate_ra_state, DW_CFA_def_cfa_offset, 16,
			DW_CFA_offset | 30, 1),
		  { .cfa = KP_CFA_SP, .cfa_off = 16, .ra = KP_REG_CFA, .ra_off = -8 } },
	};

	CHECK(examples);
}

Test(instructions, remember_and_restore_everything)
{
	const struct example examples[] = {
		{ "once", X86, 0,
		  BYTES(DW_CFA_remember_state, DW_CFA_def_cfa, 6, 16, DW_CFA_offset | 6, 2,
			DW_CFA_undefined, 16, DW_CFA_restore_state),
		  CALL_FRAME(8) },
		{ "within one another", X86, 0,
		  BYTES(DW_CFA_def_cfa_offset, 16, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 24,
			DW_CFA_remember_state, DW_CFA_def_cfa_offset, 32, DW_CFA_restore_state,
			DW_CFA_restore_state),
		  CALL_FRAME(16) },
	};

	CHECK(examples);
}

Test(instructions, expressions_that_the_table_can_hold)
{
#define DEREF(kind, off, plus)                                                                     \
	{                                                                                          \
		.cfa = (kind), .cfa_off = (off), .add = (plus), .ra = KP_REG_CFA, .ra_off = -8     \
	}
	const struct example examples[] = {
		{ "PLT",
		  X86,
		  0,
		  BYTES(DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15,
			DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
		  { .cfa = KP_CFA_PLT, .reg = 11, .cfa_off = 8, .ra = KP_REG_CFA, .ra_off = -8 } },
		{ "[sp + 40] + 8", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 5, DW_OP_breg7, 40, DW_OP_deref,
			DW_OP_plus_uconst, 8),
		  DEREF(KP_CFA_DEREF_SP, 40, 8) },
		{ "the same, roundabout", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 9, DW_OP_const1s, 8, DW_OP_bregx, 7, 0x38,
			DW_OP_lit16, DW_OP_minus, DW_OP_deref, DW_OP_plus),
		  DEREF(KP_CFA_DEREF_SP, 40, 8) },
		{ "[fp - 8]", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref),
		  DEREF(KP_CFA_DEREF_FP, -8, 0) },
		{ "sp + 24", X86, 0, BYTES(DW_CFA_def_cfa_expression, 2, DW_OP_breg7, 24),
		  CALL_FRAME(24) },
	};

	CHECK(examples);
}

Test(instructions, expressions_that_it_cannot)
{
	const struct example examples[] = {
		{ "nothing", X86, 0, BYTES(DW_CFA_def_cfa_expression, 0), INVALID },
		{ "a constant", X86, 0, BYTES(DW_CFA_def_cfa_expression, 1, DW_OP_lit8), INVALID },
		{ "memory twice", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 40, DW_OP_deref, DW_OP_deref),
		  INVALID },
		{ "memory at another register", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 3, DW_OP_breg3, 40, DW_OP_deref), INVALID },
		{ "a sum of registers", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 5, DW_OP_breg7, 0, DW_OP_breg3, 0, DW_OP_plus),
		  INVALID },
		{ "a jump", X86, 0, BYTES(DW_CFA_def_cfa_expression, 3, DW_OP_skip, 0xfd, 0xff),
		  INVALID },
		{ "more than the stack", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 9, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0,
			DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0),
		  INVALID },
		{ "less than the stack", X86, 0, BYTES(DW_CFA_def_cfa_expression, 1, DW_OP_plus),
		  INVALID },
		{ "an operand that is cut", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 2, DW_OP_breg7, 0x80), INVALID },
		{ "a PLT of something else", X86, 0,
		  BYTES(DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 1, DW_OP_lit15,
			DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
		  INVALID },
		{ "a PLT of another CPU", ARM, 0,
		  BYTES(DW_CFA_def_cfa_expression, 11, DW_OP_breg31, 8, DW_OP_breg16, 0,
			DW_OP_lit15, DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl,
			DW_OP_plus),
		  INVALID },
	};

	CHECK(examples);
}

/* The table takes for granted that the caller's sp is the CFA. */
Test(instructions, that_give_the_stack_pointer_another_value_are_not_held)
{
	const struct example examples[] = {
		{ "saved", X86, 0, BYTES(DW_CFA_offset | 7, 2), INVALID },
		{ "CFA + 8", X86, 0, BYTES(DW_CFA_val_offset, 7, 0x7f), INVALID },
		{ "CFA", X86, 0, BYTES(DW_CFA_val_offset, 7, 0), CALL_FRAME(8) },
		{ "CFA by an expression", X86, 0, BYTES(DW_CFA_val_expression, 7, 1, DW_OP_nop),
		  CALL_FRAME(8) },
	};

	CHECK(examples);
}

Test(instructions, of_signal_frames)
{
	const struct kp_table_rule signal = { .cfa = KP_CFA_SIGNAL };
	const struct example examples[] = {
		{ "glibc", X86, 1,
		  BYTES(DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 1, DW_OP_deref,
			DW_CFA_expression, 16, 3, DW_OP_breg7, 0xa8, 1),
		  signal },
		{ "CFA at sp", X86, 1,
		  BYTES(DW_CFA_def_cfa, 7, 0, DW_CFA_offset_extended_sf, 16, 0x6b), signal },
		{ "no frame of the kernel's", X86, 1, BYTES(DW_CFA_nop), CALL_FRAME(8) },
		{ "aarch64", ARM, 1, BYTES(DW_CFA_nop), signal },
		{ "riscv64", RISCV, 1, BYTES(DW_CFA_nop), signal },
		{ "without S", ARM, 0, BYTES(DW_CFA_nop), { .cfa = KP_CFA_SP } },
	};

	CHECK(examples);
}

Test(instructions, advance)
{
	const struct {
		struct framewriter_bytes program;
		uint64_t to;
	} ways[] = {
		{ BYTES(ADVANCE(0x21), DW_CFA_def_cfa_offset, 16), 0x21 },
		{ BYTES(DW_CFA_advance_loc1, 0xf0, DW_CFA_def_cfa_offset, 16), 0xf0 },
		{ BYTES(DW_CFA_advance_loc2, 0x02, 0x01, DW_CFA_def_cfa_offset, 16), 0x102 },
		{ BYTES(DW_CFA_advance_loc4, 0x03, 0x00, 0x01, 0x00, DW_CFA_def_cfa_offset, 16),
		  0x10003 },
		{ BYTES(DW_CFA_MIPS_advance_loc8, 0x04, 0, 2, 0, 0, 0, 0, 0, DW_CFA_def_cfa_offset,
			16),
		  0x20004 },
		{ BYTES(ADVANCE(1), ADVANCE(2), ADVANCE(3), DW_CFA_def_cfa_offset, 16), 6 },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct framewriter w = { .machine = X86 };
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		framewriter_fde(&w, framewriter_cie(&w, X86_START), 0x100, 0x30000,
				ways[i].program);
		framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
		cr_assert_eq(table.stats.bad_fdes, 0);
		cr_assert_eq(framewriter_rule(&table, 0x100).cfa_off, 8);
		cr_assert_eq(framewriter_rule(&table, 0x100 + ways[i].to - 1).cfa_off, 8, "%zu", i);
		cr_assert_eq(framewriter_rule(&table, 0x100 + ways[i].to).cfa_off, 16, "%zu", i);
		cr_assert_eq(framewriter_rule(&table, 0x300ff).cfa_off, 16);
	}
}

Test(instructions, set_the_location)
{
	struct framewriter w = { .machine = X86 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, X86_START), fde;
	int32_t off;

	fde = framewriter_fde(&w, cie, 0x100, 0x100,
			      BYTES(DW_CFA_set_loc, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 16));
	off = (int32_t)(FRAMEWRITER_CODE + 0x140 - (FRAMEWRITER_FRAMES + fde + 18));
	memcpy(w.data + fde + 18, &off, sizeof(off));
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.bad_fdes, 0);
	cr_assert_eq(framewriter_rule(&table, 0x13f).cfa_off, 8);
	cr_assert_eq(framewriter_rule(&table, 0x140).cfa_off, 16);
}

/* x86-64: 1; aarch64 often 4. */
Test(instructions, advance_by_the_alignment_of_code)
{
	struct framewriter w = { .machine = ARM };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, LINK_START);

	w.data[cie + 12] = 4;
	framewriter_fde(&w, cie, 0x100, 0x100, BYTES(ADVANCE(5), DW_CFA_def_cfa_offset, 16));
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(framewriter_rule(&table, 0x113).cfa_off, 0);
	cr_assert_eq(framewriter_rule(&table, 0x114).cfa_off, 16);
}

/* The rows before hold, the rest is INVALID, and the FDE is counted. */
Test(instructions, that_make_no_sense_cost_the_rest_of_the_function)
{
	const struct framewriter_bytes bad[] = {
		BYTES(ADVANCE(8), DW_CFA_restore_state),
		BYTES(ADVANCE(8), 0x3f),
		BYTES(ADVANCE(8), 0x17),
		BYTES(ADVANCE(8), DW_CFA_def_cfa_expression, 1, DW_OP_lit0, DW_CFA_def_cfa_offset,
		      8),
		BYTES(ADVANCE(8), DW_CFA_def_cfa_expression, 1, DW_OP_lit0, DW_CFA_def_cfa_register,
		      6),
		BYTES(ADVANCE(8), DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80),
		BYTES(ADVANCE(8), DW_CFA_expression, 6, 100, DW_OP_lit0),
		BYTES(ADVANCE(8), DW_CFA_offset | 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		      0xff, 0xff, 0x01),
		BYTES(ADVANCE(8), DW_CFA_set_loc, 0, 0, 0xf0, 0xff), /* back */
		BYTES(ADVANCE(8), DW_CFA_remember_state, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
		      10, 10, 10, 10, 10),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct framewriter w = { .machine = X86 };
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;
		size_t cie = framewriter_cie(&w, X86_START);

		framewriter_fde(&w, cie, 0x100, 0x100, bad[i]);
		framewriter_fde(&w, cie, 0x200, 0x100, NO_BYTES);
		framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
		cr_assert_eq(table.r, 0);
		cr_assert_eq(table.stats.bad_fdes, 1, "%zu", i);
		cr_assert_eq(framewriter_rule(&table, 0x107).cfa, KP_CFA_SP);
		cr_assert_eq(framewriter_rule(&table, 0x108).cfa, KP_CFA_INVALID, "%zu", i);
		cr_assert_eq(framewriter_rule(&table, 0x1ff).cfa, KP_CFA_INVALID);
		cr_assert_eq(framewriter_rule(&table, 0x200).cfa, KP_CFA_SP);
	}
}

Test(instructions, without_a_cfa_say_nothing)
{
	struct framewriter w = { .machine = X86 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	framewriter_fde(&w, framewriter_cie(&w, NO_BYTES), 0x100, 0x100, NO_BYTES);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(framewriter_rule(&table, 0x100).cfa, KP_CFA_INVALID);
	cr_assert_eq(table.stats.cfa_bytes[KP_CFA_INVALID], 0x100);
}

/* As gas begins CIEs for riscv64. */
Test(instructions, may_name_the_cfa_register_first)
{
	struct framewriter w = { .machine = RISCV };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	framewriter_fde(&w, framewriter_cie(&w, BYTES(DW_CFA_def_cfa_register, 2)), 0x100, 0x100,
			NO_BYTES);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(framewriter_rule(&table, 0x100).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(&table, 0x100).cfa_off, 0);
}
