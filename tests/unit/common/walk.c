/*
 * Walks by rules, by frame pointers and by both, over stacks in an array, for each CPU.
 */
#include "tests/support/test.h"
#include "tests/unit/common/stacks.h"

#define PC_MAX 16

static const struct kp_arch *const arches[] = {
	&kp_arch_x86_64,
	&kp_arch_aarch64,
	&kp_arch_riscv64,
};
#define ARCHES (sizeof(arches) / sizeof(arches[0]))

struct walked {
	uint64_t pc[PC_MAX + 1]; /* one more than the walker is told of */
	uint32_t n, how;
	enum kp_walk_end end;
};

static struct walked walk_max(struct stacks *stacks, const struct kp_arch *arch,
			      enum kp_unwind_mode mode, struct kp_regs regs, uint32_t max)
{
	struct walked walked = { .n = 0 };
	struct kp_walk walk = {
		.arch = arch,
		.mode = mode,
		.read_word = stacks_read,
		.read_ctx = stacks,
		.find_rule = stacks_find,
		.find_ctx = stacks,
	};

	memset(walked.pc, 0xee, sizeof(walked.pc));
	walked.end = kp_walk(&walk, regs, walked.pc, max, &walked.n, &walked.how);
	cr_assert_eq(walked.pc[max], UINT64_C(0xeeeeeeeeeeeeeeee));
	cr_assert_eq(stacks->misaligned_reads, 0);
	return walked;
}

static struct walked walk(struct stacks *stacks, const struct kp_arch *arch,
			  enum kp_unwind_mode mode, struct kp_regs regs)
{
	return walk_max(stacks, arch, mode, regs, PC_MAX);
}

static void assert_calls(const struct walked *walked, uint32_t n)
{
	cr_assert_eq(walked->n, n);
	cr_assert_eq(walked->pc[0], FUNCTION(0));
	for (uint32_t i = 1; i < n; i++)
		cr_assert_eq(walked->pc[i], CALL(i));
}

/*
 * Functions 0 to 3, without frame pointers, frames of 4, 6, 2 words; function 3 has no caller. Above
 * each frame's end nothing but its return address, below the CFA.
 */
static struct kp_regs three_frames(struct stacks *stacks)
{
	stacks_init(stacks);
	stacks->rules[0] = sp_rule(4, -1, 0);
	stacks->rules[1] = sp_rule(6, -1, 0);
	stacks->rules[2] = sp_rule(2, -1, 0);
	stacks->rules[3] = (struct kp_table_rule){ .cfa = KP_CFA_STOP };
	stacks->stack[10 + 3] = CALL(1);
	stacks->stack[14 + 5] = CALL(2);
	stacks->stack[20 + 1] = CALL(3);
	return (struct kp_regs){ .pc = FUNCTION(0), .sp = at(10), .fp = 0x1234567, .ra = 0 };
}

Test(walk, follows_rules_to_the_outermost_frame)
{
	for (size_t i = 0; i < ARCHES; i++) {
		for (int mode = KP_UNWIND_AUTO; mode <= KP_UNWIND_SLICE; mode++) {
			struct stacks stacks;
			struct kp_regs regs = three_frames(&stacks);
			struct walked walked;

			if (mode == KP_UNWIND_FP)
				continue;
			walked = walk(&stacks, arches[i], (enum kp_unwind_mode)mode, regs);
			assert_calls(&walked, 4);
			cr_assert_eq(walked.end, KP_WALK_OUTERMOST);
			cr_assert_eq(walked.how, KP_HOW_TABLE);
			cr_assert_eq(stacks.text_reads, 0);
		}
	}
}

Test(walk, looks_callers_up_one_byte_before_their_return_address)
{
	struct stacks stacks;
	struct kp_regs regs = three_frames(&stacks);

	walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	cr_assert_eq(stacks.asked_n, 4);
	cr_assert_eq(stacks.asked[0], FUNCTION(0));
	for (uint32_t i = 1; i < 4; i++)
		cr_assert_eq(stacks.asked[i], CALL(i) - 1);
}
