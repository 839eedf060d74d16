/* The walk of copied stacks: as the handler would have walked them, and never outside the copy. */
#include "daemon/drain/slice.h"

#include "tests/support/test.h"

#include <string.h>

#define WORDS 32
#define SP UINT64_C(0x7ffd00001000)
#define CODE(n) (UINT64_C(0x400000) + 0x100 * (uint64_t)(n))
#define RECORD_WORDS (2 + KP_SLICE_HEAD_WORDS + WORDS)

static uint64_t room[RECORD_WORDS], walked_room[2 + KP_DEPTH_MAX];
static struct kp_ring_record *const record = (struct kp_ring_record *)(void *)room;
static struct kp_ring_record *const walked = (struct kp_ring_record *)(void *)walked_room;
static struct kp_ring_slice *slice;
static struct kp_slice_walk how = { .arch = &kp_arch_x86_64, .depth = 64 };

static uint64_t at(uint32_t word)
{
	return SP + 8 * (uint64_t)word;
}

static void begin(void)
{
	record->origin = 3;
	record->overrun = 4;
	record->depth = KP_SLICE_HEAD_WORDS + WORDS;
	record->source = KP_SOURCE_EVENT;
	record->how = KP_HOW_SLICE | KP_HOW_CUT;
	slice = (struct kp_ring_slice *)(void *)record->pc;
	slice->pc = CODE(0);
	slice->sp = SP;
	slice->fp = at(2);
}

static bool is_walk(uint32_t depth, enum kp_walk_end end, uint32_t by)
{
	kp_slice_walk(&how, record, walked);
	for (uint32_t i = 0; i < depth; i++)
		if (walked->pc[i] != CODE(i))
			return false;
	return walked->depth == depth && walked->walk_end == end &&
	       walked->how == (by | KP_HOW_SLICE) && walked->origin == 3 && walked->overrun == 4 &&
	       walked->source == KP_SOURCE_EVENT;
}

/* x86-64: [fp] the frame pointer before, [fp + 8] the return address. */
static void put_frame(uint32_t word, uint64_t fp, uint64_t return_address)
{
	slice->stack[word] = fp;
	slice->stack[word + 1] = return_address;
}

Test(slice, frame_pointers_lead_through_it)
{
	begin();
	put_frame(2, at(10), CODE(1));
	put_frame(10, at(30), CODE(2));
	put_frame(30, 0, CODE(3));
	cr_assert(is_walk(4, KP_WALK_ROOT, KP_HOW_FP));
	how.depth = 3;
	cr_assert(is_walk(3, KP_WALK_DEPTH, KP_HOW_FP));
}

Test(slice, stack_that_goes_on_behind_it_is_cut)
{
	begin();
	put_frame(2, at(WORDS), CODE(1));
	cr_assert(is_walk(2, KP_WALK_UNREADABLE, KP_HOW_FP | KP_HOW_CUT));
	/* One word of the frame is there. */
	put_frame(2, at(WORDS - 1), CODE(1));
	slice->stack[WORDS - 1] = 0;
	cr_assert(is_walk(2, KP_WALK_UNREADABLE, KP_HOW_FP | KP_HOW_CUT));
}

Test(slice, stack_that_ended_where_memory_did_is_not_cut)
{
	begin();
	record->how = KP_HOW_SLICE;
	put_frame(2, at(WORDS), CODE(1));
	cr_assert(is_walk(2, KP_WALK_UNREADABLE, KP_HOW_FP));
}

/* What the rules of the made-up code say. */
static struct kp_table_rule rules[8];

static int find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	uint64_t n = (pc - CODE(0) + 1) / 0x100;

	(void)ctx;
	if (n >= 8)
		return -1;
	*ret = rules[n];
	return 0;
}

static struct kp_table_rule frame_of(int32_t bytes)
{
	return (struct kp_table_rule){
		.cfa = KP_CFA_SP, .cfa_off = bytes, .ra = KP_REG_CFA, .ra_off = -8
	};
}

Test(slice, rules_lead_through_it_without_frame_pointers)
{
	begin();
	slice->fp = 12345;
	slice->stack[1] = CODE(1);
	slice->stack[5] = CODE(2);
	rules[0] = frame_of(16);
	rules[1] = frame_of(32);
	rules[2] = (struct kp_table_rule){ .cfa = KP_CFA_STOP };
	how.find_rule = find_rule;
	cr_assert(is_walk(3, KP_WALK_OUTERMOST, KP_HOW_TABLE));
	/* The frame is larger than what was copied. */
	rules[1] = frame_of(8 * WORDS);
	cr_assert(is_walk(2, KP_WALK_UNREADABLE, KP_HOW_TABLE | KP_HOW_CUT));
}

Test(slice, leaf_may_have_its_frame_in_any_register)
{
	begin();
	slice->fp = 0;
	slice->stack[21] = CODE(1);
	rules[1] = (struct kp_table_rule){ .cfa = KP_CFA_STOP };
	how.find_rule = find_rule;
	for (uint8_t number = 0; number < KP_SLICE_REGS; number++) {
		memset(slice->reg, 0, sizeof(slice->reg));
		slice->reg[number] = at(20);
		rules[0] = frame_of(16);
		rules[0].cfa = KP_CFA_REG;
		rules[0].reg = number;
		cr_assert(is_walk(2, KP_WALK_OUTERMOST, KP_HOW_TABLE));
	}
	rules[0].reg = KP_SLICE_REGS;
	cr_assert(is_walk(1, KP_WALK_NO_RULE, 0));
}

Test(slice, memory_below_it_is_not_there_either)
{
	begin();
	rules[0] = frame_of(16);
	rules[0].cfa = KP_CFA_DEREF_SP;
	rules[0].cfa_off = -64;
	how.find_rule = find_rule;
	cr_assert(is_walk(1, KP_WALK_UNREADABLE, 0));
}

Test(slice, stack_pointer_in_the_middle_of_a_word_means_that_word)
{
	begin();
	slice->sp = SP + 3;
	put_frame(2, 0, CODE(1));
	cr_assert(is_walk(2, KP_WALK_ROOT, KP_HOW_FP));
}

Test(slice, empty_one_has_its_leaf)
{
	begin();
	record->depth = KP_SLICE_HEAD_WORDS;
	record->how = KP_HOW_SLICE;
	cr_assert(is_walk(1, KP_WALK_UNREADABLE, 0));
}

Test(slice, noise_does_no_harm)
{
	static const struct kp_arch *const arches[] = { &kp_arch_x86_64, &kp_arch_aarch64,
							&kp_arch_riscv64 };
	uint64_t state = 1;

	begin();
	how.find_rule = find_rule;
	for (int round = 0; round < 20000; round++) {
		uint64_t *word = (uint64_t *)(void *)slice;

		for (uint32_t i = 0; i < KP_SLICE_HEAD_WORDS + WORDS; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			word[i] = state >> 62 ? SP + (state >> 40) % 512 / 8 * 8
					      : state >> (state >> 58);
		}
		if (round % 2)
			slice->sp = SP;
		if (round % 4 == 0)
			slice->sp = UINT64_MAX - 40;
		slice->pc = CODE(round % 8);
		for (uint32_t i = 0; i < 8; i++)
			memcpy(&rules[i], &word[i * 3], sizeof(rules[i]));
		record->depth = (uint16_t)(KP_SLICE_HEAD_WORDS + round % (WORDS + 1));
		how.arch = arches[round % 3];
		kp_slice_walk(&how, record, walked);
		cr_assert(walked->depth >= 1 && walked->depth <= how.depth);
		cr_assert_lt(walked->walk_end, KP_WALK_END_COUNT);
	}
}
