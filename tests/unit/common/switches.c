/*
 * Walks through code that keeps frame pointers and goes over to another stack, as Go's runtime does:
 * where a rule says so, and nowhere else. The other stack is the alternate one, below the first.
 */
#include "tests/unit/common/stacks.h"

/* A frame with its CFA at that word of the alternate stack. */
static uint64_t put_alt_frame(struct stacks *stacks, const struct kp_arch *arch, uint32_t cfa,
			      uint64_t prev_fp, uint64_t back)
{
	stacks->alt[cfa - 2] = prev_fp;
	stacks->alt[cfa - 1] = back;
	return alt_at(cfa) - (uint64_t)arch->frame.sp_after_off;
}

static void set(struct stacks *stacks, uint32_t function, enum kp_cfa_kind cfa)
{
	stacks->rules[function] = (struct kp_table_rule){ .cfa = (uint8_t)cfa };
}

/*
 * 0 and 1 are on the stack; 2 went over to it, without a frame of its own; 3 and 4 are on the
 * alternate stack, and 4's frame pointer is 0.
 */
static struct kp_regs two_stacks(struct stacks *stacks, const struct kp_arch *arch)
{
	uint64_t fp;

	stacks_init(stacks);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		set(stacks, i, KP_CFA_CHAIN);
	set(stacks, 2, KP_CFA_SWITCH);
	set(stacks, 5, KP_CFA_STOP);
	fp = put_alt_frame(stacks, arch, 40, 0, CALL(4)); /* 3's */
	fp = put_alt_frame(stacks, arch, 30, fp, CALL(3));
	fp = put_frame(stacks, arch, 100, fp, CALL(2)); /* 1's */
	fp = put_frame(stacks, arch, 90, fp, CALL(1)); /* 0's */
	return (struct kp_regs){ .pc = FUNCTION(0), .sp = at(80), .fp = fp };
}

Test(switches, are_followed_down)
{
	static const enum kp_unwind_mode modes[] = { KP_UNWIND_AUTO, KP_UNWIND_SLICE };

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t m = 0; m < 2; m++) {
			struct stacks stacks;
			struct kp_regs regs = two_stacks(&stacks, arches[i]);
			struct walked walked = walk(&stacks, arches[i], modes[m], regs);

			assert_calls(&walked, 5);
			cr_assert_eq(walked.end, KP_WALK_ROOT);
			cr_assert_eq(walked.how, KP_HOW_FP);
		}
	}
}

/* The same with the stacks changed over: up, and too far for a step. */
Test(switches, are_followed_up)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		struct walked walked;
		uint64_t fp;

		fp = put_frame(&stacks, arches[i], 40, 0, CALL(4));
		fp = put_frame(&stacks, arches[i], 30, fp, CALL(3));
		fp = put_alt_frame(&stacks, arches[i], 100, fp, CALL(2));
		regs.fp = put_alt_frame(&stacks, arches[i], 90, fp, CALL(1));
		regs.sp = alt_at(80);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 5);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
	}
}

Test(switches, are_only_where_a_rule_says_so)
{
	static const struct {
		enum kp_cfa_kind cfa;
		enum kp_unwind_mode mode;
		uint32_t n;
		enum kp_walk_end end;
	} cases[] = {
		{ KP_CFA_CHAIN, KP_UNWIND_AUTO, 3, KP_WALK_NOT_ADVANCING },
		{ KP_CFA_GAP, KP_UNWIND_AUTO, 3, KP_WALK_NOT_ADVANCING },
		{ KP_CFA_SWITCH, KP_UNWIND_FP, 3, KP_WALK_NOT_ADVANCING },
		{ KP_CFA_SWITCH, KP_UNWIND_TABLE, 1, KP_WALK_NO_RULE },
	};

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
			struct stacks stacks;
			struct kp_regs regs = two_stacks(&stacks, arches[i]);
			struct walked walked;

			set(&stacks, 2, cases[c].cfa);
			walked = walk(&stacks, arches[i], cases[c].mode, regs);
			assert_calls(&walked, cases[c].n);
			cr_assert_eq(walked.end, cases[c].end);
		}
	}
}

/* Who has left a stack for good has no caller: others may use it by now. */
Test(switches, stack_that_was_left_is_not_looked_at)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		struct walked walked;

		set(&stacks, 2, KP_CFA_LEFT);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 3);
		cr_assert_eq(walked.end, KP_WALK_OUTERMOST);

		/* Interrupted in it, it is still there. */
		regs.pc = FUNCTION(2);
		regs.fp = put_alt_frame(&stacks, arches[i], 30, 0, CALL(3));
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 2);
		cr_assert_eq(walked.pc[1], CALL(3));
		cr_assert_eq(walked.end, KP_WALK_ROOT);
	}
}

Test(switches, lead_to_known_code_only)
{
	static const uint64_t unknown[] = { NO_TABLE, FUNCTION(6) + 1, 0x5000, UINT64_MAX >> 16 };

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t k = 0; k < sizeof(unknown) / sizeof(unknown[0]); k++) {
			struct stacks stacks;
			struct kp_regs regs = two_stacks(&stacks, arches[i]);
			struct walked walked;

			set(&stacks, 6, KP_CFA_GAP);
			for (uint32_t word = 0; word < WORDS; word++)
				if (stacks.alt[word] == CALL(3))
					stacks.alt[word] = unknown[k];
			walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
			assert_calls(&walked, 3);
			cr_assert_eq(walked.end, KP_WALK_BAD_PC);
		}
	}
}

Test(switches, lead_to_frames_only)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		uint64_t good = put_alt_frame(&stacks, arches[i], 30, 0, CALL(3));
		struct walked walked;

		/* One whose own frame pointer leads down; no memory; misaligned. */
		put_alt_frame(&stacks, arches[i], 30, alt_at(8), CALL(3));
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 3);
		cr_assert_eq(walked.end, KP_WALK_NOT_ADVANCING);
		for (uint32_t word = 80; word < WORDS; word++)
			if (stacks.stack[word] == good)
				stacks.stack[word] = alt_at(2 * WORDS);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 3);
		cr_assert_eq(walked.end, KP_WALK_UNREADABLE);
		for (uint32_t word = 80; word < WORDS; word++)
			if (stacks.stack[word] == alt_at(2 * WORDS))
				stacks.stack[word] = good + 4;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 3);
		cr_assert_eq(walked.end, KP_WALK_MISALIGNED);
	}
}

/* Two frames, each of which goes over to the other. */
Test(switches, do_not_go_round_for_ever)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		uint64_t pc[64], low, high;
		uint32_t n, how;
		struct kp_walk how_to = {
			.arch = arches[i],
			.read_word = stacks_read,
			.read_ctx = &stacks,
			.find_rule = stacks_find,
			.find_ctx = &stacks,
		};

		for (uint32_t k = 0; k < FUNCTIONS; k++)
			set(&stacks, k, KP_CFA_SWITCH);
		low = put_alt_frame(&stacks, arches[i], 30, 0, CALL(3));
		high = put_alt_frame(&stacks, arches[i], 40, 0, CALL(4));
		put_alt_frame(&stacks, arches[i], 30, high, CALL(3));
		regs.fp = low;
		/* Up by as many steps as a walk may take, all of them told to be switches. */
		for (uint32_t k = 0; k < 11; k++)
			put_alt_frame(&stacks, arches[i], 30 + 4 * k,
				      low + 8 * 4 * (uint64_t)(k + 1), CALL(3));
		cr_assert_eq(kp_walk(&how_to, regs, pc, 64, &n, &how), KP_WALK_NOT_ADVANCING);
		cr_assert_eq(n, KP_FP_SWITCHES_MAX + 1);
		/* Down again is refused by the frame itself. */
		put_alt_frame(&stacks, arches[i], 34, low, CALL(3));
		cr_assert_eq(kp_walk(&how_to, regs, pc, 64, &n, &how), KP_WALK_NOT_ADVANCING);
		cr_assert_eq(n, 2);
	}
}

/* Before it has a frame, what was called by one that went over is told by the return address. */
Test(switches, entry_of_what_was_called_on_the_other_stack)
{
	static const enum kp_cfa_kind callers[] = { KP_CFA_SWITCH, KP_CFA_LEFT, KP_CFA_STOP };

	for (size_t i = 0; i < ARCHES; i++) {
		for (size_t c = 0; c < 3; c++) {
			struct stacks stacks;
			struct kp_regs regs = two_stacks(&stacks, arches[i]);
			struct walked walked;
			int is_root = callers[c] != KP_CFA_SWITCH;

			set(&stacks, 2, callers[c]);
			regs.fp = put_alt_frame(&stacks, arches[i], 30, 0, CALL(3));
			regs.ra = CALL(2);
			stacks.stack[80] = CALL(2);
			walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
			cr_assert_eq(walked.n, is_root ? 2 : 3);
			cr_assert_eq(walked.pc[1], CALL(2));
			cr_assert_eq(walked.end, is_root ? KP_WALK_OUTERMOST : KP_WALK_ROOT);
		}
	}
}

Test(switches, entry_is_not_guessed)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		struct walked walked;

		/* Called by one that stays where it is: the frame pointer is wrong, and no more. */
		regs.fp = put_alt_frame(&stacks, arches[i], 30, 0, CALL(3));
		regs.ra = CALL(1);
		stacks.stack[80] = CALL(1);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 1);
		cr_assert_eq(walked.end, KP_WALK_NOT_ADVANCING);

		/* No stack to read from. */
		regs.ra = 0;
		regs.sp = at(80) + 4;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 1);
		regs.sp = at(4 * WORDS);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 1);
	}
}

/* Code that is known to keep frame pointers: a goroutine's first instructions. */
Test(switches, frame_pointer_of_zero_is_the_root_of_a_chain)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct stacks stacks;
		struct kp_regs regs = two_stacks(&stacks, arches[i]);
		struct walked walked;

		regs.fp = 0;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 1);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
		set(&stacks, 0, KP_CFA_SWITCH);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_calls(&walked, 1);
		cr_assert_eq(walked.end, KP_WALK_ROOT);
	}
}

/* A signal's restorer that is Go's own. */
Test(switches, restorers_are_found_in_code_that_keeps_frame_pointers)
{
	for (size_t i = 0; i < ARCHES; i++) {
		const struct kp_arch *arch = arches[i];
		struct stacks stacks;
		struct kp_regs inner = two_stacks(&stacks, arch), regs = { .pc = FUNCTION(8) };
		struct walked walked;

		put_restorer(&stacks, arch, FUNCTION(8));
		regs.sp = alt_at(50);
		put_signal_frame(arch, &stacks.alt[50], &inner);
		walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 6, "%s: %u, end %d", arch->name, walked.n, walked.end);
		cr_assert_eq(walked.pc[0], FUNCTION(8));
		cr_assert_eq(walked.pc[1], FUNCTION(0) + 1);
		cr_assert_eq(walked.pc[5], CALL(4));
		cr_assert_eq(walked.end, KP_WALK_ROOT);
	}
}
