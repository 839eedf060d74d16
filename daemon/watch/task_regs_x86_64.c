/*
 * Registers of a sample on x86-64: task_sample.h. Daemon, pure. The kernel's numbers are those of
 * asm/perf_regs.h, DWARF's those of the psABI, figure 3.36.
 */
#include "daemon/watch/task_sample.h"

#include <asm/perf_regs.h>

#define RBP 6 /* by DWARF */
#define RSP 7

/* By DWARF number; behind them the PC. */
static const uint8_t wanted[] = {
	PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,	PERF_REG_X86_SI,
	PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,	PERF_REG_X86_R9,
	PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
	PERF_REG_X86_R15, PERF_REG_X86_IP,
};
#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

uint64_t kp_task_regs_mask(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < WANTED; i++)
		mask |= UINT64_C(1) << wanted[i];
	return mask;
}

/* Where the kernel writes a register: behind those of lower numbers that are wanted. */
static size_t place_of(uint8_t number)
{
	uint64_t below = kp_task_regs_mask() & ((UINT64_C(1) << number) - 1);

	return (size_t)__builtin_popcountll(below);
}

void kp_task_regs_take(const uint64_t *value, size_t count, struct kp_ring_slice *ret)
{
	for (size_t i = 0; i < KP_SLICE_REGS; i++) {
		size_t place = i + 1 < WANTED ? place_of(wanted[i]) : count;

		ret->reg[i] = place < count ? value[place] : 0;
	}
	ret->pc = count == WANTED ? value[place_of(PERF_REG_X86_IP)] : 0;
	ret->sp = ret->reg[RSP];
	ret->fp = ret->reg[RBP];
	ret->ra = 0;
}
