/*
 * A stack in an array and unwind rules over made-up code, for the tests of common/unwind/.
 */
#pragma once

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
	frame[arch->signal.link_off / 8] = 0;
}

static inline void put_restorer(struct stacks *stacks, const struct kp_arch *arch, uint64_t pc)
{
	memcpy((uint8_t *)stacks->text + (pc - TEXT), arch->signal.restorer_bytes,
	       arch->signal.restorer_size);
}
