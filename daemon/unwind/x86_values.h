/*
 * What is known of the values in x86-64's registers on one path through code, as far as it is
 * needed to find the table of a switch: numbers with a bound, addresses, an entry of a table, what
 * becomes of them. No state; pure.
 */
#pragma once

#include "daemon/unwind/x86_insn.h"

enum kp_x86_value_is {
	KP_X86_ANYTHING,
	KP_X86_CONSTANT, /* address */
	KP_X86_BOUNDED, /* at most bound */
	KP_X86_OFFSET, /* one of a table's bound + 1 words of 4 bytes at address, sign-extended */
	KP_X86_TARGET, /* the same, added to address */
	KP_X86_POINTER, /* one of a table's bound + 1 words of 8 bytes at address */
};

struct kp_x86_value {
	uint64_t address;
	uint32_t bound;
	uint8_t is; /* enum kp_x86_value_is */
};

struct kp_x86_values {
	struct kp_x86_value reg[16];
	uint16_t compared; /* set of registers that the flags tell of: compared with limit */
	uint32_t limit;
};

/* After the instruction. next: address behind it; writes: kp_x86_writes(). */
void kp_x86_values_step(struct kp_x86_values *values, const struct kp_x86_insn *insn, uint64_t next,
			uint16_t writes);

/* After a conditional jump that the flags have decided so. */
void kp_x86_values_branch(struct kp_x86_values *values, uint8_t condition, bool taken);

/* After a call: the registers that functions may use are anything. */
void kp_x86_values_call(struct kp_x86_values *values);

/* Where an indirect jump goes: a TARGET or a POINTER, else ANYTHING. */
struct kp_x86_value kp_x86_values_target(const struct kp_x86_values *values,
					 const struct kp_x86_insn *insn);
