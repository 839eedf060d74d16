/*
 * A stack in an array and unwind rules over made-up code, for the tests of common/unwind/.
 */
#pragma once

#include "tests/support/test.h"

#include "common/unwind/walk.h"

#include <stdint.h>
#include <string.h>

/*
 * Three pieces of memory and nothing else: the stack, an alternate stack (which is below it), and
 * code.
 */
#define STACK UINT64_C(0x7ffe00000000)
#define ALTSTACK UINT64_C(0x7ffd00000000)
#define TEXT UINT64_C(0x400000)
#define WORDS 128

/* The n-th function, and the instruction in it where it calls the one before. */
#define FUNCTION(n) (TEXT + (uint64_t)(n)*0x40)
#define CALL(n) (FUNCTION(n) + 0x20)
#define FUNCTIONS (WORDS * 8 / 0x40)

struct stacks {
	uint64_t stack[WORDS], alt[WORDS], text[WORDS];
	struct kp_table_rule rules[FUNCTIONS]; /* by function; GAP unless set */
	uint64_t asked[64]; /* what rules were looked up for */
	uint32_t asked_n;
	uint32_t reads, text_reads, misaligned_reads;
};

static inline uint64_t at(uint32_t word)
{
	return STACK + 8ull * word;
}

static inline uint64_t alt_at(uint32_t word)
{
	return ALTSTACK + 8ull * word;
}

/* A kp_read_word_fn. */
static inline int stacks_read(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct stacks *stacks = ctx;

	stacks->reads++;
	stacks->misaligned_reads += addr % 8 != 0;
	if (addr % 8)
		return -1;
	if (addr - STACK < sizeof(stacks->stack))
		*ret = stacks->stack[(addr - STACK) / 8];
	else if (addr - ALTSTACK < sizeof(stacks->alt))
		*ret = stacks->alt[(addr - ALTSTACK) / 8];
	else if (addr - TEXT < sizeof(stacks->text) && ++stacks->text_reads)
		*ret = stacks->text[(addr - TEXT) / 8];
	else
		return -1;
	return 0;
}

/* A kp_find_rule_fn: code outside of TEXT has no table. */
static inline int stacks_find(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	struct stacks *stacks = ctx;

	if (stacks->asked_n < 64)
		stacks->asked[stacks->asked_n++] = pc;
	if (pc - TEXT >= sizeof(stacks->text))
		return -1;
	*ret = stacks->rules[(pc - TEXT) / 0x40];
	return 0;
}

/* Words that are no return address, no frame pointer and nothing else. */
static inline void stacks_init(struct stacks *stacks)
{
	memset(stacks, 0, sizeof(*stacks));
	memset(stacks->stack, 0xcc, sizeof(stacks->stack));
	memset(stacks->alt, 0xcc, sizeof(stacks->alt));
	memset(stacks->text, 0x90, sizeof(stacks->text));
}

/* sp + words, the return address and the previous frame pointer below the CFA. */
static inline struct kp_table_rule sp_rule(int32_t words, int32_t ra_word, int32_t fp_word)
{
	return (struct kp_table_rule){
		.cfa = KP_CFA_SP,
		.cfa_off = 8 * words,
		.ra = KP_REG_CFA,
		.ra_off = 8 * ra_word,
		.fp = fp_word ? KP_REG_CFA : KP_REG_SAME,
		.fp_off = 8 * fp_word,
	};
}

/* The interrupted registers as the kernel writes them, at frame (its uc_link too). */
static inline void put_signal_frame(const struct kp_arch *arch, uint64_t *frame,
				    const struct kp_regs *regs)
{
	frame[arch->signal.pc_off / 8] = regs->pc;
	frame[arch->signal.sp_off / 8] = regs->sp;
	frame[arch->signal.fp_off / 8] = regs->fp;
	if (arch->signal.ra_off)
		frame[arch->signal.ra_off / 8] = regs->ra;
	if (arch->signal.base_off)
		frame[arch->signal.base_off / 8] = regs->base;
	frame[arch->signal.link_off / 8] = 0;
}

static inline void put_restorer(struct stacks *stacks, const struct kp_arch *arch, uint64_t pc)
{
	memcpy((uint8_t *)stacks->text + (pc - TEXT), arch->signal.restorer_bytes,
	       arch->signal.restorer_size);
}

/* ---- steps and walks ---- */

static const struct kp_arch *const arches[] = {
	&kp_arch_x86_64,
	&kp_arch_aarch64,
	&kp_arch_riscv64,
};
#define ARCHES (sizeof(arches) / sizeof(arches[0]))

#define PC_MAX 16

#define NO_TABLE UINT64_C(0x10000000) /* code that no table knows */
#define NOWHERE UINT64_C(0x1234567) /* a frame pointer of code that uses it for something else */

struct walked {
	uint64_t pc[PC_MAX + 1]; /* one more than the walker is told of */
	uint32_t n, how;
	enum kp_walk_end end;
};

/* [0]: of which number; [1]: its value */
static inline int leaf_register(void *ctx, uint32_t dwarf_number, uint64_t *ret)
{
	const uint64_t *one = ctx;

	if (dwarf_number != one[0])
		return -1;
	*ret = one[1];
	return 0;
}

/* A step that fails must leave the registers as they are. */
static inline enum kp_walk_end step_with(struct stacks *stacks, const struct kp_arch *arch,
					 const struct kp_table_rule *rule, struct kp_regs *regs,
					 uint64_t *leaf)
{
	const struct kp_cfi_step step = {
		.arch = arch,
		.read_word = stacks_read,
		.ctx = stacks,
		.leaf_register = leaf ? leaf_register : NULL,
		.leaf_ctx = leaf,
	};
	struct kp_regs before = *regs;
	enum kp_walk_end end = kp_cfi_step(&step, rule, regs);

	cr_assert(end < KP_WALK_END_COUNT && end != KP_WALK_ROOT && end != KP_WALK_DEPTH);
	cr_assert_eq(stacks->misaligned_reads, 0);
	if (end != KP_WALK_ON)
		cr_assert_arr_eq(regs, &before, sizeof(before));
	return end;
}

static inline enum kp_walk_end step(struct stacks *stacks, const struct kp_arch *arch,
				    struct kp_table_rule rule, struct kp_regs *regs)
{
	return step_with(stacks, arch, &rule, regs, NULL);
}

static inline struct walked walk_max(struct stacks *stacks, const struct kp_arch *arch,
				     enum kp_unwind_mode mode, struct kp_regs regs, uint32_t max)
{
	uint64_t leaf[] = { 3, at(12) };
	struct walked walked = { .n = 0 };
	struct kp_walk walk = {
		.arch = arch,
		.mode = mode,
		.read_word = stacks_read,
		.read_ctx = stacks,
		.find_rule = stacks_find,
		.find_ctx = stacks,
		.leaf_register = leaf_register,
		.leaf_ctx = leaf,
	};

	memset(walked.pc, 0xee, sizeof(walked.pc));
	walked.end = kp_walk(&walk, regs, walked.pc, max, &walked.n, &walked.how);
	cr_assert(walked.n >= 1 && walked.n <= max);
	cr_assert_eq(walked.pc[max], UINT64_C(0xeeeeeeeeeeeeeeee));
	cr_assert_eq(walked.how & ~KP_HOW_ALL, 0);
	cr_assert_eq(stacks->misaligned_reads, 0);
	return walked;
}

static inline struct walked walk(struct stacks *stacks, const struct kp_arch *arch,
				 enum kp_unwind_mode mode, struct kp_regs regs)
{
	return walk_max(stacks, arch, mode, regs, PC_MAX);
}

/* The leaf is function 0, frame i is in function i where it calls. */
static inline void assert_calls(const struct walked *walked, uint32_t n)
{
	cr_assert_eq(walked->n, n);
	cr_assert_eq(walked->pc[0], FUNCTION(0));
	for (uint32_t i = 1; i < n; i++)
		cr_assert_eq(walked->pc[i], CALL(i));
}

/* ---- stacks ---- */

/* A frame with a frame pointer, its CFA at a word: where fp points to, and its two words. */
static inline uint64_t put_frame(struct stacks *stacks, const struct kp_arch *arch, uint32_t cfa,
				 uint64_t prev_fp, uint64_t back)
{
	stacks->stack[cfa - 2] = prev_fp;
	stacks->stack[cfa - 1] = back;
	return at(cfa) - (uint64_t)arch->frame.sp_after_off;
}

/* Functions 0 to 3, without frame pointers, frames of 4, 6, 2 words; function 3 has no caller. */
static inline struct kp_regs three_frames(struct stacks *stacks)
{
	stacks_init(stacks);
	stacks->rules[0] = sp_rule(4, -1, 0);
	stacks->rules[1] = sp_rule(6, -1, 0);
	stacks->rules[2] = sp_rule(2, -1, 0);
	stacks->rules[3] = (struct kp_table_rule){ .cfa = KP_CFA_STOP };
	stacks->stack[10 + 3] = CALL(1);
	stacks->stack[14 + 5] = CALL(2);
	stacks->stack[20 + 1] = CALL(3);
	return (struct kp_regs){
		.pc = FUNCTION(0), .sp = at(10), .fp = NOWHERE, .base = KP_REG_LOST
	};
}

/* Functions 0 to 3 keep frame pointers; that of function 4, which called 3, is 0. */
static inline struct kp_regs fp_chain(struct stacks *stacks, const struct kp_arch *arch)
{
	uint64_t fp;

	stacks_init(stacks);
	fp = put_frame(stacks, arch, 40, 0, CALL(4));
	fp = put_frame(stacks, arch, 32, fp, CALL(3));
	fp = put_frame(stacks, arch, 26, fp, CALL(2));
	fp = put_frame(stacks, arch, 16, fp, CALL(1));
	return (struct kp_regs){ .pc = FUNCTION(0), .sp = at(10), .fp = fp };
}

/* ---- noise ---- */

static uint64_t random_state = 88172645463325252;

static inline uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}
