/*
 * Walks by rules, by frame pointers and by both, over stacks in an array, for each CPU.
 */
#include "tests/support/test.h"
#include "tests/unit/common/stacks.h"

/* The rule of code between its prologue and its epilogue that has such a frame. */
static struct kp_table_rule fp_rule(const struct kp_arch *arch)
{
	return (struct kp_table_rule){
		.cfa = KP_CFA_FP,
		.cfa_off = arch->frame.sp_after_off,
		.ra = KP_REG_CFA,
		.ra_off = -8,
		.fp = KP_REG_CFA,
		.fp_off = -16,
	};
}

/* ---- rules alone ---- */

Test(walk, follows_rules_to_the_outermost_frame)
{
	static const enum kp_unwind_mode modes[] = { KP_UNWIND_AUTO, KP_UNWIND_TABLE,
						     KP_UNWIND_SLICE };

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
			struct stacks stacks;
			struct kp_regs regs = three_frames(&stacks);
			struct walked walked = walk(&stacks, arches[i], modes[m], regs);

			assert_calls(&walked, 4);
			cr_assert_eq(walked.end, KP_WALK_OUTERMOST);
			cr_assert(kp_walk_is_whole(walked.end));
			cr_assert_eq(walked.how, KP_HOW_TABLE);
			/* Once each, and no look at code. */
			cr_assert_eq(stacks.reads, 3);
			cr_assert_eq(stacks.text_reads, 0);
		}
	}
}

Test(walk, looks_callers_up_one_byte_before_their_return_address)
{
	struct stacks stacks;
	struct kp_regs regs = three_frames(&stacks);

	/* Function 2 ends with its call: what is behind it is not its code any more. */
	stacks.stack[14 + 5] = FUNCTION(3);
	walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	cr_assert_eq(stacks.asked_n, 4);
	cr_assert_eq(stacks.asked[0], FUNCTION(0));
	cr_assert_eq(stacks.asked[1], CALL(1) - 1);
	cr_assert_eq(stacks.asked[2], FUNCTION(3) - 1);
	cr_assert_eq(stacks.asked[3], CALL(3) - 1);
}

Test(walk, depth_is_an_end_only_if_the_stack_goes_on)
{
	for (size_t i = 0; i < ARCHES; i++) {
		for (uint32_t max = 1; max <= 5; max++) {
			struct stacks stacks;
			struct kp_regs regs = three_frames(&stacks);
			struct walked walked =
				walk_max(&stacks, arches[i], KP_UNWIND_AUTO, regs, max);

			assert_calls(&walked, max < 4 ? max : 4);
			cr_assert_eq(walked.end, max < 4 ? KP_WALK_DEPTH : KP_WALK_OUTERMOST);
		}
	}
}

Test(walk, knows_registers_of_the_leaf_alone)
{
	struct stacks stacks;
	struct kp_regs regs = three_frames(&stacks);
	struct walked walked;

	/* Register 3 is two words above sp. */
	stacks.rules[0].cfa = KP_CFA_REG;
	stacks.rules[0].reg = 3;
	stacks.rules[0].cfa_off = 16;
	walked = walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	assert_calls(&walked, 4);

	stacks.rules[1] = stacks.rules[0];
	stacks.rules[1].cfa_off = 64;
	walked = walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	assert_calls(&walked, 2);
	cr_assert_eq(walked.end, KP_WALK_NO_RULE);
}

Test(walk, takes_the_link_register_of_the_leaf_alone)
{
	for (size_t i = 1; i < ARCHES; i++) { /* those that have one */
		struct stacks stacks;
		struct kp_regs regs = three_frames(&stacks);
		struct walked walked;

		stacks.rules[0] = (struct kp_table_rule){ .cfa = KP_CFA_SP, .ra = KP_REG_SAME };
		regs.sp = at(14);
		regs.ra = CALL(1);
		walked = walk(&stacks, arches[i], KP_UNWIND_TABLE, regs);
		assert_calls(&walked, 4);
		cr_assert_eq(walked.end, KP_WALK_OUTERMOST);

		/* A caller that says so as well has nothing in it, and no way to go round. */
		stacks.rules[1] = stacks.rules[0];
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 2);
		cr_assert_eq(walked.end, KP_WALK_NO_RULE);
	}
}

Test(walk, zero_return_address_is_the_outermost_frame)
{
	struct stacks stacks;
	struct kp_regs regs = three_frames(&stacks);
	struct walked walked;

	stacks.stack[20 + 1] = 0;
	walked = walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	assert_calls(&walked, 3);
	cr_assert_eq(walked.end, KP_WALK_ZERO_PC);
}

/* ---- frame pointers alone ---- */

Test(walk, without_tables_follows_frame_pointers)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = fp_chain(&stacks, arches[i]);
		struct walked walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		struct kp_walk no_tables = { .arch = arches[i],
					     .read_word = stacks_read,
					     .read_ctx = &stacks };

		assert_calls(&walked, 5);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
		cr_assert_eq(walked.how, KP_HOW_FP);
		cr_assert_eq(stacks.text_reads, 0);

		walked.end = kp_walk(&no_tables, regs, walked.pc, PC_MAX, &walked.n, &walked.how);
		assert_calls(&walked, 5);
		cr_assert_eq(walked.end, KP_WALK_ROOT);

		walked = walk(&stacks, arches[i], KP_UNWIND_TABLE, regs);
		assert_calls(&walked, 1);
		cr_assert_eq(walked.end, KP_WALK_NO_RULE);
		cr_assert_eq(walked.how, 0);
	}
}

/* An address in the code, or on the stack and mostly aligned, or anything. */
static uint64_t random_value(void)
{
	uint64_t word = random_word();

	switch (word >> 60) {
	case 0:
		return word << 4;
	case 1:
		return 0;
	case 2:
	case 3:
	case 4:
	case 5:
		return TEXT + word % (WORDS * 8);
	default:
		return at((uint32_t)(word % WORDS)) + (word >> 55 & 31 ? 0 : word & 7);
	}
}

Test(walk, in_fp_mode_is_the_walk_of_fp_h)
{
	for (int round = 0; round < 20000; round++) {
		const struct kp_arch *arch = arches[round % 3];
		struct kp_regs regs = { random_value(), random_value(), random_value(),
					random_value(), random_value() };
		uint64_t pc[PC_MAX];
		struct stacks stacks;
		struct walked walked;
		enum kp_walk_end end;
		uint32_t n;

		stacks_init(&stacks);
		for (uint32_t i = 0; i < WORDS; i++)
			stacks.stack[i] = random_value();
		for (uint32_t i = 0; i < FUNCTIONS; i++)
			stacks.rules[i].cfa = KP_CFA_STOP; /* not asked */
		walked = walk(&stacks, arch, KP_UNWIND_FP, regs);
		end = kp_fp_walk(&arch->frame, regs, stacks_read, &stacks, pc, PC_MAX, &n);
		cr_assert_eq(stacks.asked_n, 0);
		cr_assert_eq(walked.end, end);
		cr_assert_eq(walked.n, n);
		cr_assert_arr_eq(walked.pc, pc, n * sizeof(pc[0]));
	}
}

/* ---- both ---- */

/*
 * 0: rule by sp; 1, 2: no rules, frame pointers (a JIT's code); 3: rule by sp; 4: by fp; 5: STOP.
 * Function 0 uses the frame pointer for nothing, so it is function 1's.
 */
static struct kp_regs mixed_stack(struct stacks *stacks, const struct kp_arch *arch)
{
	struct kp_regs regs = { .pc = FUNCTION(0), .sp = at(10) };
	uint64_t fp;

	stacks_init(stacks);
	stacks->rules[0] = sp_rule(4, -1, 0);
	stacks->rules[3] = sp_rule(6, -1, 0);
	stacks->rules[4] = fp_rule(arch);
	stacks->rules[5].cfa = KP_CFA_STOP;
	stacks->stack[10 + 3] = CALL(1);
	fp = put_frame(stacks, arch, 50, NOWHERE, CALL(5)); /* 4's */
	stacks->stack[30 + 5] = CALL(4); /* 3's */
	fp = put_frame(stacks, arch, 30, fp, CALL(3)); /* 2's */
	regs.fp = put_frame(stacks, arch, 20, fp, CALL(2)); /* 1's */
	return regs;
}

Test(walk, goes_from_rules_to_frame_pointers_and_back)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = mixed_stack(&stacks, arches[i]);
		struct walked walked;

		if (arches[i] == &kp_arch_aarch64)
			continue; /* below */
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 6);
		cr_assert_eq(walked.end, KP_WALK_OUTERMOST);
		cr_assert_eq(walked.how, KP_HOW_FP | KP_HOW_TABLE);

		walked = walk(&stacks, arches[i], KP_UNWIND_TABLE, regs);
		assert_calls(&walked, 2);
		cr_assert_eq(walked.end, KP_WALK_NO_RULE);
		cr_assert_eq(walked.how, KP_HOW_TABLE);
	}
}

/*
 * There the frame pointer does not tell where the caller's sp is, so a rule that needs it is of no
 * use until one brings it back that does not: meanwhile the chain is followed.
 */
Test(walk, aarch64_does_not_guess_the_stack_pointer)
{
	const struct kp_arch *arch = &kp_arch_aarch64;
	struct stacks stacks;
	struct kp_regs regs = mixed_stack(&stacks, arch);
	struct walked walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);

	/* Function 3 keeps no frame, its caller is missing: 4's frame is followed instead. */
	cr_assert_eq(walked.n, 5);
	cr_assert_eq(walked.pc[3], CALL(3));
	cr_assert_eq(walked.pc[4], CALL(5));
	cr_assert_eq(walked.end, KP_WALK_OUTERMOST);

	/* With a frame pointer in 3 all is there: at the bottom of its frame, as GCC has it. */
	regs = mixed_stack(&stacks, arch);
	stacks.stack[33] = stacks.stack[28]; /* 2's previous fp: 4's */
	stacks.stack[34] = CALL(4);
	stacks.stack[28] = at(33);
	walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);
	assert_calls(&walked, 6);
	cr_assert_eq(walked.end, KP_WALK_OUTERMOST);

	/* After 4's rule, which goes by fp, sp is known again. */
	stacks.rules[5] = sp_rule(4, -1, 0);
	stacks.rules[6].cfa = KP_CFA_STOP;
	stacks.stack[50 + 3] = CALL(6);
	walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);
	assert_calls(&walked, 7);
	cr_assert_eq(walked.end, KP_WALK_OUTERMOST);
}

/* A stack that was made by hand: its first function returns to where another one begins. */
Test(walk, beginning_of_a_function_that_nobody_called_is_the_outermost_frame)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = three_frames(&stacks);
		struct walked walked;

		stacks.stack[14 + 5] = FUNCTION(3);
		stacks.rules[2].cfa = KP_CFA_GAP;
		stacks.rules[3] = sp_rule(1, -1, 0);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 3);
		cr_assert_eq(walked.pc[2], FUNCTION(3) + 1);
		cr_assert_eq(walked.end, KP_WALK_OUTERMOST);
		cr_assert_eq(walked.how, KP_HOW_TABLE);

		/* With code before it, it is where that code's last call will return. */
		stacks.rules[2] = sp_rule(WORDS, 0, 0);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.pc[2], FUNCTION(3));
		cr_assert_eq(walked.end, KP_WALK_UNREADABLE);
	}
}

/* What frame pointers have led to is no return address for sure. */
Test(walk, pointer_to_a_function_is_no_root)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = fp_chain(&stacks, arches[i]);
		struct walked walked;

		for (uint32_t word = 0; word < WORDS; word++)
			if (stacks.stack[word] == CALL(1))
				stacks.stack[word] = FUNCTION(6);
		regs.ra = FUNCTION(6);
		stacks.rules[6] = sp_rule(1, -1, 0);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_geq(walked.n, 2);
		cr_assert_eq(walked.pc[1], FUNCTION(6));
		cr_assert_neq(walked.end, KP_WALK_OUTERMOST);
	}
}

Test(walk, failed_rule_is_the_end)
{
	for (size_t i = 0; i < ARCHES; i++) {
		static const uint8_t unknown[] = { KP_CFA_REG, KP_CFA_INVALID, 77 };
		struct stacks stacks;
		struct kp_regs regs = fp_chain(&stacks, arches[i]);
		struct walked walked;

		stacks.rules[1] = sp_rule(WORDS, 0, 0);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, arches[i]->frame.sp_after_exact ? 2 : 5);
		cr_assert_eq(walked.end,
			     arches[i]->frame.sp_after_exact ? KP_WALK_UNREADABLE : KP_WALK_ROOT);
		for (size_t k = 0; k < sizeof(unknown); k++) {
			stacks.rules[1].cfa = unknown[k];
			walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
			assert_calls(&walked, 2);
			cr_assert_eq(walked.end, KP_WALK_NO_RULE);
		}
		stacks.rules[1] = fp_rule(arches[i]);
		stacks.rules[1].cfa_off = -128;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 2);
		cr_assert_eq(walked.end, KP_WALK_NOT_ADVANCING);
	}
}

Test(walk, garbage_in_the_frame_pointer_ends_it)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = three_frames(&stacks);
		struct walked walked;

		stacks.rules[1] = fp_rule(arches[i]);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 2);
		cr_assert_eq(walked.end, KP_WALK_MISALIGNED);
		regs.fp = at(2);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.end, KP_WALK_NOT_ADVANCING);
		regs.fp = UINT64_MAX - 7;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 2);
		cr_assert_not(kp_walk_is_whole(walked.end));
	}
}

Test(walk, lost_frame_pointer_is_no_root)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = three_frames(&stacks);
		struct walked walked;

		stacks.rules[0].fp = KP_REG_UNDEFINED;
		stacks.rules[1].cfa = KP_CFA_GAP;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 2);
		cr_assert_eq(walked.end, KP_WALK_NO_RULE);
	}
}

/* As in musl, whose thread starter has no rule and clears the frame pointer before it calls. */
Test(walk, frame_pointer_of_zero_in_a_caller_is_the_root)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = three_frames(&stacks);
		struct walked walked;

		stacks.rules[0] = sp_rule(4, -1, -2);
		stacks.stack[10 + 2] = 0;
		stacks.rules[3].cfa = KP_CFA_GAP;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 4);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
		cr_assert_eq(walked.how, KP_HOW_FP | KP_HOW_TABLE);
	}
}

Test(walk, frame_pointer_of_zero_in_a_leaf_without_a_rule_is_just_a_number)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs regs = { .pc = FUNCTION(0), .sp = at(10) };
		struct stacks stacks;
		struct walked walked;

		stacks_init(&stacks);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 1);
		cr_assert_eq(walked.end, KP_WALK_NO_RULE);
		/* In a module without a table, frame pointers may be kept: a goroutine's first. */
		regs.pc = NO_TABLE;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 1);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
	}
}

/* ---- noise ---- */

static struct kp_table_rule random_rule(void)
{
	uint64_t word = random_word();

	return (struct kp_table_rule){
		.cfa = (uint8_t)(word % (KP_CFA_COUNT + 1)),
		.fp = (uint8_t)(word / 16 % 6),
		.ra = (uint8_t)(word / 128 % 6),
		.reg = (uint8_t)(word / 1024 % 16),
		.cfa_off = (int32_t)(random_word() % 32) * 8 - 16,
		.fp_off = (int32_t)(random_word() % 32) * 8 - 128,
		.ra_off = (int32_t)(random_word() % 32) * 8 - 128,
		.add = (int32_t)(random_word() % 4) * 8,
		.base = (uint32_t)(word / 16384 % 6),
		.base_off = (int32_t)(random_word() % 32) * 8 - 128,
	};
}

Test(walk, noise_ends)
{
	uint32_t ends[KP_WALK_END_COUNT] = { 0 }, deep = 0;

	for (int round = 0; round < 30000; round++) {
		struct kp_regs regs = { random_value(), random_value(), random_value(),
					random_value(), random_value() };
		enum kp_unwind_mode mode = (enum kp_unwind_mode)(random_word() % 4);
		struct stacks stacks;
		struct walked walked;

		stacks_init(&stacks);
		for (uint32_t i = 0; i < WORDS; i++) {
			stacks.stack[i] = random_value();
			stacks.alt[i] = random_value();
		}
		for (uint32_t i = 0; i < FUNCTIONS; i++)
			stacks.rules[i] = random_rule();
		walked = walk(&stacks, arches[round % 3], mode, regs);
		cr_assert(walked.end > KP_WALK_ON && walked.end < KP_WALK_END_COUNT);
		for (uint32_t i = 1; i < walked.n; i++)
			cr_assert_geq(walked.pc[i], KP_CODE_MIN);
		cr_assert_leq(stacks.reads, (walked.n + 1) * 8);
		ends[walked.end]++;
		deep += walked.n > 3;
	}
	cr_assert_gt(deep, 100);
	for (int end = KP_WALK_ROOT; end < KP_WALK_END_COUNT; end++)
		cr_assert(end == KP_WALK_DEPTH || ends[end] > 10);
}
