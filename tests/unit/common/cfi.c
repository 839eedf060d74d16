/*
 * One step by a rule, over stacks in an array, for each CPU: each kind of rule, each way in which a
 * step fails, and rules that are noise. Signal frames are in signals.c.
 */
#include "tests/support/test.h"
#include "tests/unit/common/stacks.h"

#define RETURN (TEXT + 0x123)

static struct kp_regs regs_at(uint32_t sp_word, uint32_t fp_word)
{
	return (struct kp_regs){
		.pc = TEXT, .sp = at(sp_word), .fp = at(fp_word), .base = KP_REG_LOST
	};
}

/* ---- where the CFA is ---- */

/* The return address is below the CFA at word cfa, which is where the rule must lead. */
static void assert_cfa(struct kp_table_rule rule, uint32_t cfa, struct kp_regs regs, uint64_t *leaf)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs moved = regs;

		stacks_init(&stacks);
		stacks.stack[50] = at(70) - 3; /* for those that read a word */
		stacks.stack[cfa - 1] = RETURN;
		rule.ra = KP_REG_CFA;
		rule.ra_off = -8;
		cr_assert_eq(step_with(&stacks, arches[i], &rule, &moved, leaf), KP_WALK_ON);
		cr_assert_eq(moved.pc, RETURN);
		cr_assert_eq(moved.sp, at(cfa));
		cr_assert_eq(moved.fp, regs.fp);
		cr_assert_eq(moved.ra, 0);
	}
}

Test(cfi, finds_the_cfa_from_the_stack_pointer)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_SP, .cfa_off = 48 };

	assert_cfa(rule, 16, regs_at(10, 1), NULL);
}

Test(cfi, finds_the_cfa_from_the_frame_pointer)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_FP, .cfa_off = 16 };

	assert_cfa(rule, 42, regs_at(10, 40), NULL);
	rule.cfa_off = -16; /* riscv64's is above its words */
	assert_cfa(rule, 38, regs_at(10, 40), NULL);
}

Test(cfi, finds_the_cfa_from_a_register_of_the_leaf)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_REG, .cfa_off = 8, .reg = 10 };
	uint64_t leaf[] = { 10, at(60) };

	assert_cfa(rule, 61, regs_at(10, 40), leaf);
}

Test(cfi, finds_the_cfa_in_a_word_of_the_stack)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_DEREF_SP, .cfa_off = 320, .add = 11 };

	assert_cfa(rule, 71, regs_at(10, 40), NULL);
	rule = (struct kp_table_rule){ .cfa = KP_CFA_DEREF_FP, .cfa_off = -80, .add = 3 };
	assert_cfa(rule, 70, regs_at(10, 60), NULL);
}

Test(cfi, finds_the_cfa_of_a_plt_by_the_instruction)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_PLT, .cfa_off = 8, .reg = 11 };
	struct kp_regs regs = regs_at(10, 40);

	for (uint64_t low = 0; low < 16; low++) {
		regs.pc = TEXT + 0x230 + low;
		assert_cfa(rule, low >= 11 ? 12 : 11, regs, NULL);
	}
}

/* ---- where registers are ---- */

Test(cfi, finds_the_return_address_where_the_rule_says)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_table_rule rule = { .cfa = KP_CFA_SP, .cfa_off = 80 };
		struct stacks stacks;
		struct kp_regs regs;

		stacks_init(&stacks);
		stacks.stack[17] = CALL(1); /* [CFA - 24] */
		stacks.stack[12] = CALL(2); /* [sp + 16] */
		stacks.stack[41] = CALL(3); /* [fp + 8] */
		rule.ra = KP_REG_CFA, rule.ra_off = -24;
		regs = regs_at(10, 40);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.pc, CALL(1));
		rule.ra = KP_REG_SP, rule.ra_off = 16;
		regs = regs_at(10, 40);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.pc, CALL(2));
		rule.ra = KP_REG_FP, rule.ra_off = 8;
		regs = regs_at(10, 40);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.pc, CALL(3));
		cr_assert_eq(regs.sp, at(20));
	}
}

Test(cfi, finds_the_frame_pointer_where_the_rule_says)
{
	static const struct {
		uint8_t kind;
		int32_t off;
		uint64_t fp;
	} cases[] = {
		{ KP_REG_SAME, 16, STACK + 8 * 40 },
		{ KP_REG_CFA, -16, 1111 },
		{ KP_REG_SP, 16, 2222 },
		{ KP_REG_FP, 0, 3333 },
		{ KP_REG_UNDEFINED, 0, KP_REG_LOST },
	};

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
			struct kp_table_rule rule = sp_rule(10, -1, 0);
			struct kp_regs regs = regs_at(10, 40);
			struct stacks stacks;

			stacks_init(&stacks);
			stacks.stack[19] = RETURN;
			stacks.stack[18] = 1111;
			stacks.stack[12] = 2222;
			stacks.stack[40] = 3333;
			rule.fp = cases[k].kind;
			rule.fp_off = cases[k].off;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
			cr_assert_eq(regs.fp, cases[k].fp);
		}
	}
}

Test(cfi, takes_the_link_register_once)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_table_rule rule = { .cfa = KP_CFA_SP, .ra = KP_REG_SAME };
		struct kp_regs regs = regs_at(10, 40);
		struct stacks stacks;

		stacks_init(&stacks);
		regs.ra = RETURN;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.pc, RETURN);
		cr_assert_eq(regs.sp, at(10)); /* no frame at all */
		cr_assert_eq(regs.ra, 0);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		cr_assert_eq(stacks.reads, 0);
	}
}

Test(cfi, lost_frame_pointer_is_not_followed)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs regs = { TEXT, at(10), KP_REG_LOST, 0, KP_REG_LOST };
		struct kp_table_rule rule = sp_rule(10, -1, 0);
		struct stacks stacks;

		stacks_init(&stacks);
		stacks.stack[19] = RETURN;
		rule.cfa = KP_CFA_FP;
		rule.cfa_off = 15; /* would be aligned */
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		rule.cfa = KP_CFA_DEREF_FP;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		rule = sp_rule(10, -1, 0);
		rule.fp = KP_REG_FP;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		/* Nor by fp.h, and it is no root. */
		cr_assert_eq(kp_fp_step(&arches[i]->frame, &regs, 0, stacks_read, &stacks),
			     KP_WALK_MISALIGNED);
		rule = sp_rule(10, -1, 0);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.fp, KP_REG_LOST);
	}
}

/* ---- ends ---- */

Test(cfi, rule_may_say_that_there_is_no_caller)
{
	struct kp_table_rule rule = { .cfa = KP_CFA_STOP };
	struct kp_regs regs = regs_at(10, 40);
	struct stacks stacks;

	stacks_init(&stacks);
	cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_OUTERMOST);
	cr_assert_eq(stacks.reads, 0);
}

Test(cfi, rule_may_say_nothing)
{
	uint64_t leaf[] = { 3, at(20) };

	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs regs = regs_at(10, 40);
		struct kp_table_rule rule = { .cfa = KP_CFA_GAP };
		struct stacks stacks;

		stacks_init(&stacks);
		stacks.stack[19] = RETURN;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		for (uint32_t cfa = KP_CFA_INVALID; cfa < 256; cfa++) {
			rule.cfa = (uint8_t)cfa;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		}
		for (uint32_t kind = KP_REG_UNDEFINED; kind < 256; kind++) {
			rule = sp_rule(10, -1, 0);
			rule.ra = (uint8_t)kind;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
			rule = sp_rule(10, -1, 0);
			rule.fp = (uint8_t)kind;
			if (kind != KP_REG_UNDEFINED)
				cr_assert_eq(step(&stacks, arches[i], rule, &regs),
					     KP_WALK_NO_RULE);
		}
		/* A register of a frame that is not the leaf; one that the leaf has not. */
		rule = (struct kp_table_rule){ .cfa = KP_CFA_REG, .reg = 3, .ra = KP_REG_CFA };
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_NO_RULE);
		rule.reg = 4;
		cr_assert_eq(step_with(&stacks, arches[i], &rule, &regs, leaf), KP_WALK_NO_RULE);
	}
}

/* Of the CPUs with a base register. */
Test(cfi, finds_the_cfa_from_the_base_register_of_a_caller)
{
	struct kp_table_rule by_base = sp_rule(0, -1, 0);
	struct kp_table_rule saves = sp_rule(10, -1, 0), keeps = saves, loses = saves;
	const struct kp_arch *arch = &kp_arch_x86_64;
	struct stacks stacks;

	by_base.cfa = KP_CFA_REG;
	by_base.cfa_off = 16;
	by_base.reg = arch->dwarf.base;
	saves.base = KP_REG_CFA;
	saves.base_off = -16;
	loses.base = KP_REG_UNDEFINED;
	stacks_init(&stacks);
	stacks.stack[19] = stacks.stack[61] = RETURN;
	for (int i = 0; i < 4; i++) {
		const struct kp_table_rule *rules[] = { &saves, &keeps, &loses, &saves };
		struct kp_regs regs = regs_at(10, 40);

		regs.base = i == 1 ? at(60) : 7;
		stacks.stack[18] = i == 3 ? at(60) + 4 : at(60);
		cr_assert_eq(step(&stacks, arch, *rules[i], &regs), KP_WALK_ON);
		cr_assert_eq(step(&stacks, arch, by_base, &regs), i == 2   ? KP_WALK_NO_RULE
								  : i == 3 ? KP_WALK_MISALIGNED
									   : KP_WALK_ON);
		if (i < 2)
			cr_assert_eq(regs.sp, at(62));
	}
}

/* Few need it, and where it was saved may be a matter of what is lost. */
Test(cfi, base_register_that_cannot_be_read_is_lost_and_nothing_else)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_table_rule rule = sp_rule(10, -1, 0);
		struct kp_regs regs = regs_at(10, 40);
		struct stacks stacks;

		regs.fp = KP_REG_LOST;
		stacks_init(&stacks);
		stacks.stack[19] = RETURN;
		rule.base = KP_REG_FP;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.base, KP_REG_LOST);
	}
}

Test(cfi, cfa_must_go_up)
{
	for (size_t i = 0; i < ARCHES; i++) {
		for (uint32_t word = 1; word <= 12; word++) {
			struct kp_table_rule rule = { .cfa = KP_CFA_FP, .ra = KP_REG_SP };
			struct kp_regs regs = regs_at(10, word);
			struct stacks stacks;

			stacks_init(&stacks);
			stacks.stack[10] = RETURN;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs),
				     word > 10 ? KP_WALK_ON : KP_WALK_NOT_ADVANCING);
			/* With the return address in the link register it may stay. */
			rule.ra = KP_REG_SAME;
			regs = regs_at(10, word);
			regs.ra = RETURN;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs),
				     word >= 10 ? KP_WALK_ON : KP_WALK_NOT_ADVANCING);
		}
	}
}

Test(cfi, one_step_is_sixteen_mebibytes_at_most)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_table_rule rule = { .cfa = KP_CFA_SP, .ra = KP_REG_SP };
		struct kp_regs regs = regs_at(10, 40);
		struct stacks stacks;

		stacks_init(&stacks);
		stacks.stack[10] = RETURN;
		rule.cfa_off = (int32_t)KP_CFA_STEP_MAX + 8;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_TOO_FAR);
		rule.cfa_off = (int32_t)KP_CFA_STEP_MAX;
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
	}
}

Test(cfi, nothing_misaligned_is_read_or_returned_to)
{
	for (int32_t off = 1; off < 8; off++) {
		struct kp_table_rule rule = sp_rule(10, -1, -2);
		struct kp_regs regs = regs_at(10, 40);
		struct stacks stacks;

		stacks_init(&stacks);
		stacks.stack[19] = RETURN;
		rule.cfa_off += off;
		cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_MISALIGNED);
		rule = sp_rule(10, -1, -2);
		rule.ra_off += off;
		cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_MISALIGNED);
		rule = sp_rule(10, -1, -2);
		rule.fp_off += off;
		cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_MISALIGNED);
		rule.cfa = KP_CFA_DEREF_SP;
		rule.cfa_off = off;
		cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_MISALIGNED);
		rule.cfa = KP_CFA_SIGNAL;
		regs.sp += (uint64_t)off;
		cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_MISALIGNED);
	}
}

Test(cfi, unreadable_words_stop)
{
	struct kp_table_rule rule = sp_rule(WORDS, 0, -1); /* [CFA] is behind the stack */
	struct kp_regs regs = regs_at(0, 40);
	struct stacks stacks;

	stacks_init(&stacks);
	cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_UNREADABLE);
	rule = sp_rule(10, -1, WORDS);
	stacks.stack[9] = RETURN;
	cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_UNREADABLE);
	rule = sp_rule(WORDS, -1, 0);
	rule.cfa = KP_CFA_DEREF_SP;
	cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_UNREADABLE);
	rule.cfa = KP_CFA_SIGNAL;
	regs.sp = at(WORDS - 1);
	cr_assert_eq(step(&stacks, arches[0], rule, &regs), KP_WALK_UNREADABLE);
}

Test(cfi, return_address_must_be_code)
{
	static const struct {
		uint64_t address;
		enum kp_walk_end end;
	} cases[] = {
		{ 0, KP_WALK_ZERO_PC },
		{ 1, KP_WALK_BAD_PC },
		{ 4095, KP_WALK_BAD_PC },
		{ 4096, KP_WALK_ON },
	};

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
			struct kp_table_rule rule = sp_rule(10, -1, 0);
			struct kp_regs regs = regs_at(10, 40);
			struct stacks stacks;

			stacks_init(&stacks);
			stacks.stack[19] = cases[k].address;
			cr_assert_eq(step(&stacks, arches[i], rule, &regs), cases[k].end);
		}
	}
}

Test(cfi, aarch64_strips_signatures_and_tags)
{
	struct kp_table_rule rule = sp_rule(0, -1, -2);
	struct kp_regs regs = regs_at(10, 40);
	struct stacks stacks;

	stacks_init(&stacks);
	stacks.stack[39] = RETURN | UINT64_C(0x7b2f) << 48;
	rule.cfa = KP_CFA_FP;
	regs.fp |= UINT64_C(0xa5) << 56;
	cr_assert_eq(step(&stacks, &kp_arch_aarch64, rule, &regs), KP_WALK_ON);
	cr_assert_eq(regs.pc, RETURN);
	cr_assert_eq(regs.sp, at(40));
	/* Tags on the way to a word. */
	rule.ra = KP_REG_FP;
	regs = regs_at(10, 40);
	regs.fp |= UINT64_C(0xa5) << 56;
	cr_assert_eq(step(&stacks, &kp_arch_aarch64, rule, &regs), KP_WALK_ON);
	/* A signed zero. */
	rule.ra = KP_REG_SAME;
	rule.cfa_off = 80;
	regs = regs_at(10, 40);
	regs.ra = UINT64_C(0x0051) << 48;
	cr_assert_eq(step(&stacks, &kp_arch_aarch64, rule, &regs), KP_WALK_ZERO_PC);
}

/* ---- noise ---- */

static uint64_t random_value(void)
{
	uint64_t word = random_word();

	switch (word >> 60) {
	case 0:
		return word << 4;
	case 1:
		return word % 8192;
	case 2:
	case 3:
		return TEXT + word % 4096;
	default:
		return at((uint32_t)(word % WORDS)) + (word >> 59 & 1 ? word >> 32 & 7 : 0);
	}
}

/* Every kind, small offsets, mostly; now and then anything. */
static struct kp_table_rule random_rule(void)
{
	uint64_t word = random_word();
	struct kp_table_rule rule = {
		.cfa = (uint8_t)(word % 11),
		.fp = (uint8_t)(word / 16 % 6),
		.ra = (uint8_t)(word / 128 % 6),
		.reg = (uint8_t)(word / 1024 % 16),
		.cfa_off = (int32_t)(random_word() % 64) * 8 - 128,
		.fp_off = (int32_t)(random_word() % 64) * 8 - 256,
		.ra_off = (int32_t)(random_word() % 64) * 8 - 256,
		.add = (int32_t)(random_word() % 4) * 8,
		.base = (uint32_t)(word / 16384 % 6),
		.base_off = (int32_t)(random_word() % 64) * 8 - 256,
	};
	uint8_t *bytes = (uint8_t *)&rule;

	if (word >> 62 == 0)
		bytes[(word >> 20) % sizeof(rule)] = (uint8_t)(word >> 30);
	return rule;
}

static void assert_caller(const struct kp_regs *from, const struct kp_regs *to,
			  const struct kp_table_rule *rule, const struct kp_arch *arch)
{
	cr_assert_geq(to->pc, KP_CODE_MIN);
	if (rule->cfa == KP_CFA_SIGNAL)
		return;
	cr_assert_eq(to->sp % 8, 0);
	cr_assert_eq(to->ra, 0);
	cr_assert_leq(to->sp - from->sp, KP_CFA_STEP_MAX);
	if (to->sp == from->sp) {
		cr_assert_eq(rule->ra, KP_REG_SAME);
		cr_assert_eq(to->pc, from->ra & arch->frame.code_mask);
	}
}

Test(cfi, noise_never_leads_astray)
{
	uint32_t steps[KP_CFA_COUNT] = { 0 };
	struct stacks stacks;

	for (int round = 0; round < 200; round++) {
		stacks_init(&stacks);
		for (uint32_t i = 0; i < WORDS; i++)
			stacks.stack[i] = random_value();
		for (int i = 0; i < 1000; i++) {
			const struct kp_arch *arch = arches[random_word() % ARCHES];
			struct kp_table_rule rule = random_rule();
			struct kp_regs regs = { random_value(), random_value(), random_value(),
						random_value(), random_value() };
			struct kp_regs from = regs;
			uint64_t leaf[] = { 3, random_value() };

			if (step_with(&stacks, arch, &rule, &regs, i % 2 ? leaf : NULL) !=
			    KP_WALK_ON)
				continue;
			assert_caller(&from, &regs, &rule, arch);
			steps[rule.cfa]++;
		}
	}
	for (int cfa = KP_CFA_SP; cfa <= KP_CFA_SIGNAL; cfa++)
		cr_assert_gt(steps[cfa], 20);
}
