/*
 * The walk along frame pointers over stacks in an array, for each CPU: exact sequences, and each
 * way in which a walk stops. Layouts are written out as the psABIs have them, not taken from the
 * tables under test.
 */
#include "tests/support/test.h"

#include "common/unwind/fp.h"

#include <stdint.h>
#include <string.h>

#define BASE UINT64_C(0x7ffe00000000)
#define WORDS 64
#define CODE(n) (UINT64_C(0x400000) + (n)*0x100)
#define PC_MAX 16

struct stack {
	uint64_t words[WORDS]; /* at BASE; nothing else is readable */
	uint32_t reads;
};

static int read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct stack *stack = ctx;

	stack->reads++;
	if (addr % 8 || addr < BASE || addr >= BASE + sizeof(stack->words))
		return -1;
	*ret = stack->words[(addr - BASE) / 8];
	return 0;
}

/* Where the two words of a frame are, in words from the frame pointer. */
struct cpu {
	const struct kp_arch *arch;
	int prev, back;
};
static const struct cpu cpus[] = {
	{ &kp_arch_x86_64, 0, 1 },
	{ &kp_arch_aarch64, 0, 1 },
	{ &kp_arch_riscv64, -2, -1 },
};
#define CPUS (sizeof(cpus) / sizeof(cpus[0]))

static uint64_t at(uint32_t word)
{
	return BASE + 8ull * word;
}

static void put(struct stack *stack, const struct cpu *cpu, uint32_t fp_word, uint64_t prev_fp,
		uint64_t back)
{
	stack->words[(int)fp_word + cpu->prev] = prev_fp;
	stack->words[(int)fp_word + cpu->back] = back;
}

struct walked {
	uint64_t pc[PC_MAX + 1]; /* one more than the walker is told of */
	uint32_t n;
	enum kp_walk_end end;
};

static struct walked walk_max(struct stack *stack, const struct cpu *cpu, struct kp_regs regs,
			      uint32_t max)
{
	struct walked walked = { .n = 0 };

	memset(walked.pc, 0xee, sizeof(walked.pc));
	walked.end =
		kp_fp_walk(&cpu->arch->frame, regs, read_word, stack, walked.pc, max, &walked.n);
	return walked;
}

static struct walked walk(struct stack *stack, const struct cpu *cpu, uint64_t sp, uint64_t fp)
{
	return walk_max(stack, cpu, (struct kp_regs){ .pc = CODE(0), .sp = sp, .fp = fp }, PC_MAX);
}

/* Frames at words 8, 12, 20 and 40, the last without a caller. */
static struct stack four_frames(const struct cpu *cpu)
{
	struct stack stack = { .reads = 0 };

	memset(stack.words, 0xcc, sizeof(stack.words));
	put(&stack, cpu, 8, at(12), CODE(1));
	put(&stack, cpu, 12, at(20), CODE(2));
	put(&stack, cpu, 20, at(40), CODE(3));
	put(&stack, cpu, 40, 0, CODE(4));
	return stack;
}

Test(fp, walks_the_whole_chain)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = four_frames(&cpus[i]);
		struct walked walked = walk(&stack, &cpus[i], at(2), at(8));

		cr_assert_eq(walked.end, KP_WALK_ROOT);
		cr_assert_eq(walked.n, 5);
		for (uint32_t k = 0; k < walked.n; k++)
			cr_assert_eq(walked.pc[k], CODE(k));
	}
}

Test(fp, no_frame_pointer_is_the_root)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = four_frames(&cpus[i]);
		struct walked walked = walk(&stack, &cpus[i], at(2), 0);

		cr_assert_eq(walked.end, KP_WALK_ROOT);
		cr_assert_eq(walked.n, 1);
		cr_assert_eq(walked.pc[0], CODE(0));
		cr_assert_eq(stack.reads, 0);
	}
}

Test(fp, zero_return_address_is_the_root)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = four_frames(&cpus[i]);
		struct walked walked;

		put(&stack, &cpus[i], 20, at(40), 0);
		walked = walk(&stack, &cpus[i], at(2), at(8));
		cr_assert_eq(walked.end, KP_WALK_ZERO_PC);
		cr_assert_eq(walked.n, 3);
	}
}

Test(fp, return_address_in_the_first_page_is_none)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = four_frames(&cpus[i]);

		put(&stack, &cpus[i], 12, at(20), 4095);
		cr_assert_eq(walk(&stack, &cpus[i], at(2), at(8)).end, KP_WALK_BAD_PC);
		put(&stack, &cpus[i], 12, at(20), 4096);
		cr_assert_eq(walk(&stack, &cpus[i], at(2), at(8)).end, KP_WALK_ROOT);
	}
}

Test(fp, misaligned_frame_pointer_stops)
{
	for (size_t i = 0; i < CPUS; i++) {
		for (uint64_t off = 1; off < 8; off++) {
			struct stack stack = four_frames(&cpus[i]);
			struct walked walked = walk(&stack, &cpus[i], at(2), at(8) + off);

			cr_assert_eq(walked.end, KP_WALK_MISALIGNED);
			cr_assert_eq(walked.n, 1);
			cr_assert_eq(stack.reads, 0);

			put(&stack, &cpus[i], 12, at(20) + off, CODE(2));
			walked = walk(&stack, &cpus[i], at(2), at(8));
			cr_assert_eq(walked.end, KP_WALK_MISALIGNED);
			cr_assert_eq(walked.n, 3);
		}
	}
}

Test(fp, chain_must_go_up_by_a_frame)
{
	for (size_t i = 0; i < CPUS; i++) {
		for (uint32_t back_to = 8; back_to <= 13; back_to++) {
			struct stack stack = four_frames(&cpus[i]);
			struct walked walked;

			put(&stack, &cpus[i], 12, at(back_to), CODE(2));
			walked = walk(&stack, &cpus[i], at(2), at(8));
			cr_assert_eq(walked.end, KP_WALK_NOT_ADVANCING);
			cr_assert_eq(walked.n, 3);
		}
		/* Two words are a frame; that is the least. */
		struct stack stack = four_frames(&cpus[i]);

		put(&stack, &cpus[i], 12, at(14), CODE(2));
		put(&stack, &cpus[i], 14, 0, CODE(3));
		cr_assert_eq(walk(&stack, &cpus[i], at(2), at(8)).end, KP_WALK_ROOT);
	}
}

Test(fp, first_frame_is_not_below_the_stack_pointer)
{
	for (size_t i = 0; i < CPUS; i++) {
		uint32_t lowest = (uint32_t)(8 + cpus[i].prev);
		struct stack stack = four_frames(&cpus[i]);

		cr_assert_eq(walk(&stack, &cpus[i], at(lowest), at(8)).end, KP_WALK_ROOT);
		cr_assert_eq(walk(&stack, &cpus[i], at(lowest + 1), at(8)).end,
			     KP_WALK_NOT_ADVANCING);
		/* Not known: taken as it is. */
		cr_assert_eq(walk(&stack, &cpus[i], 0, at(8)).n, 5);
	}
}

Test(fp, one_step_is_a_mebibyte_at_most)
{
	for (size_t i = 0; i < CPUS; i++) {
		uint64_t room =
			cpus[i].prev ? 0 : 16; /* the step is counted from the frame's end */
		struct stack stack = four_frames(&cpus[i]);

		cr_assert_eq(walk(&stack, &cpus[i], at(8) - KP_FP_STEP_MAX, at(8)).n, 5);
		cr_assert_eq(walk(&stack, &cpus[i], at(8) - KP_FP_STEP_MAX - 8, at(8)).end,
			     KP_WALK_TOO_FAR);

		put(&stack, &cpus[i], 12, at(12) + room + KP_FP_STEP_MAX, CODE(2));
		cr_assert_eq(walk(&stack, &cpus[i], at(2), at(8)).end, KP_WALK_UNREADABLE);
		put(&stack, &cpus[i], 12, at(12) + room + KP_FP_STEP_MAX + 8, CODE(2));
		cr_assert_eq(walk(&stack, &cpus[i], at(2), at(8)).end, KP_WALK_TOO_FAR);
	}
}

Test(fp, unreadable_frame_stops)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = four_frames(&cpus[i]);
		struct walked walked;

		put(&stack, &cpus[i], 20, at(WORDS + 20), CODE(3));
		walked = walk(&stack, &cpus[i], at(2), at(8));
		cr_assert_eq(walked.end, KP_WALK_UNREADABLE);
		cr_assert_eq(walked.n, 4);

		/* Only the lower word of the two is there; only the higher one. */
		put(&stack, &cpus[i], 20, at((uint32_t)(WORDS - 1 - cpus[i].prev)), CODE(3));
		walked = walk(&stack, &cpus[i], at(2), at(8));
		cr_assert_eq(walked.end, KP_WALK_UNREADABLE);
		walked = walk(&stack, &cpus[i], 0, BASE - (uint64_t)(8 * cpus[i].back));
		cr_assert_eq(walked.end, KP_WALK_UNREADABLE);
		cr_assert_eq(walked.n, 1);
	}
}

Test(fp, depth_is_an_end_only_if_the_chain_goes_on)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct kp_regs regs = { .pc = CODE(0), .sp = at(2), .fp = at(8) };

		for (uint32_t max = 1; max <= 6; max++) {
			struct stack stack = four_frames(&cpus[i]);
			struct walked walked = walk_max(&stack, &cpus[i], regs, max);

			cr_assert_eq(walked.n, max < 5 ? max : 5);
			cr_assert_eq(walked.end, max < 5 ? KP_WALK_DEPTH : KP_WALK_ROOT);
			cr_assert_eq(walked.pc[walked.n - 1], CODE(walked.n - 1));
			cr_assert_eq(walked.pc[walked.n], UINT64_C(0xeeeeeeeeeeeeeeee));
		}
	}
}

Test(fp, failed_step_leaves_the_registers_alone)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct kp_regs regs = { CODE(0), at(2), at(8), CODE(9), KP_REG_LOST },
			       before = regs;
		struct stack stack = four_frames(&cpus[i]);

		put(&stack, &cpus[i], 8, at(12), 1);
		cr_assert_eq(kp_fp_step(&cpus[i].arch->frame, &regs, 0, read_word, &stack),
			     KP_WALK_BAD_PC);
		cr_assert_arr_eq(&regs, &before, sizeof(regs));
	}
}

Test(fp, step_gives_the_callers_registers)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct kp_regs regs = { CODE(0), at(2), at(8), CODE(9), KP_REG_LOST };
		struct stack stack = four_frames(&cpus[i]);

		cr_assert_eq(kp_fp_step(&cpus[i].arch->frame, &regs, 1, read_word, &stack),
			     KP_WALK_ON);
		cr_assert_eq(regs.pc, CODE(1));
		cr_assert_eq(regs.fp, at(12));
		cr_assert_eq(regs.sp, cpus[i].prev ? at(8) : at(10));
		cr_assert_eq(regs.ra, 0);
	}
}

/* ---- to another stack ---- */

/* By a switch from words 20 on to a frame whose two words are at that word. */
static enum kp_walk_end switch_to(struct stack *stack, const struct cpu *cpu, uint64_t fp,
				  struct kp_regs *ret)
{
	struct kp_regs before = { CODE(0), at(20), fp, 0, 5 };
	enum kp_walk_end end;

	*ret = before;
	end = kp_fp_switch(&cpu->arch->frame, ret, read_word, stack);
	if (end != KP_WALK_ON)
		cr_assert_arr_eq(ret, &before, sizeof(before));
	return end;
}

Test(fp, switch_goes_down_and_up)
{
	for (size_t i = 0; i < CPUS; i++) {
		for (uint32_t to = 4; to < 60; to++) {
			struct stack stack = { .reads = 0 };
			struct kp_regs regs;

			put(&stack, &cpus[i], to, 0, CODE(1));
			cr_assert_eq(switch_to(&stack, &cpus[i], at(to), &regs), KP_WALK_ON);
			cr_assert_eq(regs.pc, CODE(1));
			cr_assert_eq(regs.fp, 0);
			cr_assert_eq(regs.sp, cpus[i].prev ? at(to) : at(to + 2));
			cr_assert_eq(regs.base, KP_REG_LOST);
			cr_assert_eq(stack.reads, 2);
		}
	}
}

Test(fp, frame_on_another_stack_leads_up_from_there)
{
	for (size_t i = 0; i < CPUS; i++) {
		uint64_t room = cpus[i].prev ? 0 : 16;
		struct stack stack = { .reads = 0 };
		struct kp_regs regs;

		for (uint32_t prev = 0; prev < WORDS; prev++) {
			put(&stack, &cpus[i], 8, at(prev), CODE(1));
			cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs),
				     prev >= 10 ? KP_WALK_ON : KP_WALK_NOT_ADVANCING);
		}
		put(&stack, &cpus[i], 8, at(8) + room + KP_FP_STEP_MAX, CODE(1));
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_ON);
		put(&stack, &cpus[i], 8, at(8) + room + KP_FP_STEP_MAX + 8, CODE(1));
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_TOO_FAR);
		put(&stack, &cpus[i], 8, at(20) + 4, CODE(1));
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_MISALIGNED);
		put(&stack, &cpus[i], 8, UINT64_MAX - 7, CODE(1));
		cr_assert_neq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_ON);
	}
}

Test(fp, switch_to_what_is_no_frame_fails)
{
	for (size_t i = 0; i < CPUS; i++) {
		struct stack stack = { .reads = 0 };
		struct kp_regs regs;

		put(&stack, &cpus[i], 8, at(12), CODE(1));
		cr_assert_eq(switch_to(&stack, &cpus[i], 0, &regs), KP_WALK_ROOT);
		cr_assert_eq(switch_to(&stack, &cpus[i], KP_REG_LOST, &regs), KP_WALK_MISALIGNED);
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8) + 4, &regs), KP_WALK_MISALIGNED);
		cr_assert_eq(stack.reads, 0);
		cr_assert_eq(switch_to(&stack, &cpus[i], at(WORDS + 8), &regs), KP_WALK_UNREADABLE);
		cr_assert_eq(switch_to(&stack, &cpus[i], at((uint32_t)(WORDS - 1 - cpus[i].prev)),
				       &regs),
			     KP_WALK_UNREADABLE);
		cr_assert_eq(
			switch_to(&stack, &cpus[i], BASE - (uint64_t)(8 * cpus[i].back), &regs),
			KP_WALK_UNREADABLE);
		cr_assert_eq(switch_to(&stack, &cpus[i], (UINT64_MAX - 31) & ~UINT64_C(7), &regs),
			     KP_WALK_UNREADABLE);
		put(&stack, &cpus[i], 8, at(12), 0);
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_ZERO_PC);
		put(&stack, &cpus[i], 8, at(12), 4095);
		cr_assert_eq(switch_to(&stack, &cpus[i], at(8), &regs), KP_WALK_BAD_PC);
	}
}

/* ---- aarch64 ---- */

Test(fp, aarch64_strips_signatures_and_tags)
{
	const struct cpu *cpu = &cpus[1];
	struct stack stack = four_frames(cpu);
	struct walked walked;

	put(&stack, cpu, 8, at(12) | UINT64_C(0x5a) << 56, CODE(1) | UINT64_C(0x7b2f) << 48);
	put(&stack, cpu, 12, at(20), UINT64_C(0x0051) << 48); /* signed zero */
	walked = walk(&stack, cpu, at(2), at(8) | UINT64_C(0xa5) << 56);
	cr_assert_eq(walked.pc[1], CODE(1));
	cr_assert_eq(walked.n, 2);
	cr_assert_eq(walked.end, KP_WALK_ZERO_PC);
}

/* What fp.c says of x30: it may point anywhere into the interrupted function, so it is not used. */
Test(fp, aarch64_link_register_adds_no_frame)
{
	const struct cpu *cpu = &cpus[1];
	struct kp_regs regs = { CODE(0), at(2), at(8), CODE(0) + 0x40, KP_REG_LOST };
	struct stack stack = four_frames(cpu);
	struct walked walked = walk_max(&stack, cpu, regs, PC_MAX);

	cr_assert_eq(walked.n, 5);
	cr_assert_eq(walked.pc[1], CODE(1));
}

/* ---- riscv64 ---- */

/* GCC's leaf with s0 = word 6: only the previous s0, and that at [s0-8]; below it anything. */
static struct stack riscv_leaf(uint64_t prev_fp, uint64_t below)
{
	struct stack stack = four_frames(&cpus[2]);

	stack.words[5] = prev_fp;
	stack.words[4] = below;
	return stack;
}

Test(fp, riscv64_bare_leaf_returns_to_ra)
{
	struct kp_regs regs = { CODE(0), at(2), at(6), CODE(7), KP_REG_LOST };
	struct stack stack = riscv_leaf(at(8), at(40));
	struct walked walked = walk_max(&stack, &cpus[2], regs, PC_MAX);

	cr_assert_eq(walked.end, KP_WALK_ROOT);
	cr_assert_eq(walked.n, 6);
	cr_assert_eq(walked.pc[1], CODE(7));
	for (uint32_t k = 2; k < walked.n; k++)
		cr_assert_eq(walked.pc[k], CODE(k - 1));
}

Test(fp, riscv64_leaf_with_both_words_does_not_use_ra)
{
	struct kp_regs regs = { CODE(0), at(2), at(8), CODE(0) + 0x40, KP_REG_LOST };
	struct stack stack = four_frames(&cpus[2]);
	struct walked walked = walk_max(&stack, &cpus[2], regs, PC_MAX);

	cr_assert_eq(walked.n, 5);
	cr_assert_eq(walked.pc[1], CODE(1));
}

Test(fp, riscv64_ra_is_used_in_the_leaf_only)
{
	struct kp_regs regs = { CODE(0), at(2), at(6), CODE(7), KP_REG_LOST };
	struct stack stack = riscv_leaf(at(8), at(40));

	/* Not a leaf: the word is a return address, if an odd one. */
	cr_assert_eq(kp_fp_step(&kp_arch_riscv64.frame, &regs, 0, read_word, &stack), KP_WALK_ON);
	cr_assert_eq(regs.pc, at(8));
	/* ra not known: the same. */
	regs = (struct kp_regs){ CODE(0), at(2), at(6), 0, KP_REG_LOST };
	cr_assert_eq(kp_fp_step(&kp_arch_riscv64.frame, &regs, 1, read_word, &stack), KP_WALK_ON);
	cr_assert_eq(regs.pc, at(8));
}

Test(arch, is_found_by_its_elf_number)
{
	cr_assert_eq(kp_arch_by_machine(62), &kp_arch_x86_64);
	cr_assert_eq(kp_arch_by_machine(183), &kp_arch_aarch64);
	cr_assert_eq(kp_arch_by_machine(243), &kp_arch_riscv64);
	cr_assert_null(kp_arch_by_machine(3));
	cr_assert_str_eq(kp_arch_by_machine(243)->name, "riscv64");
}
