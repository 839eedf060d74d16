/*
 * One x86-64 instruction: how long it is, and what its fields are (Intel SDM volume 2, chapter 2 and
 * appendix A). As much as compiled code needs: legacy, REX, VEX and EVEX encodings; what is
 * undefined, not of 64-bit mode, XOP, 3DNow! or APX is not decoded. No state; pure; the bytes may be
 * anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DWARF counts otherwise. */
enum kp_x86_register {
	KP_X86_RAX = 0,
	KP_X86_RCX = 1,
	KP_X86_RDX = 2,
	KP_X86_RBX = 3,
	KP_X86_RSP = 4,
	KP_X86_RBP = 5,
	KP_X86_RSI = 6,
	KP_X86_RDI = 7,
	KP_X86_RIP = 16, /* as base */
	KP_X86_NONE = 17,
};

enum kp_x86_map {
	KP_X86_ONE_BYTE,
	KP_X86_0F,
	KP_X86_0F38,
	KP_X86_0F3A,
	KP_X86_MAP5 = 5, /* AVX512-FP16 */
	KP_X86_MAP6 = 6,
};

#define KP_X86_LENGTH_MAX 15

struct kp_x86_insn {
	uint8_t length;
	uint8_t map; /* enum kp_x86_map */
	uint8_t opcode;
	bool vex; /* VEX or EVEX */
	bool has_rex, wide; /* wide: REX.W */
	bool size16, repeat; /* prefixes 66; F2 or F3 */
	bool odd_address; /* prefix FS, GS or 67: memory is not where base and index say */
	bool has_modrm;
	/*
	 * ModRM, reg and rm with REX.R and REX.B. mod 3: rm is a register. Without ModRM rm is the
	 * register in the low bits of the opcode, for those that have one there.
	 */
	uint8_t mod, reg, rm;
	uint8_t base, index, scale; /* of memory: registers (or RIP, NONE), 1 to 8 */
	uint8_t vvvv; /* of VEX */
	int64_t disp, imm; /* sign-extended; a relative jump's distance is in imm */
};

/* 0; -1: not known, or cut off by size. */
int kp_x86_decode(const uint8_t *code, size_t size, struct kp_x86_insn *ret);

/*
 * Set of the general registers (bit: enum kp_x86_register) that the instruction may write; rather
 * one too many. Not in it: what push, pop, call, return, enter and leave do to rsp and rbp beside
 * their operand, and what a called function does.
 */
uint16_t kp_x86_writes(const struct kp_x86_insn *insn);
