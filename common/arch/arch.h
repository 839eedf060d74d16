/*
 * Facts about target CPUs, as constant tables. Every CPU is compiled everywhere: a profile may be
 * read on another machine than the one that wrote it. No pointers in the tables that the agent
 * uses, so that its image needs no relocation. Libc-free; used in the target's signal handler.
 */
#pragma once

#include <stdint.h>

/*
 * Where a frame with a frame pointer keeps its caller's two words, as offsets in bytes from the
 * frame pointer register (x86-64 rbp, aarch64 x29, riscv64 s0).
 *
 * x86-64:  System V psABI 3.2.2: [rbp] previous rbp, [rbp+8] return address; CFA = rbp + 16.
 * aarch64: AAPCS64 6.4.6: [x29] previous x29, [x29+8] saved x30; the CFA is not known from x29.
 * riscv64: psABI "Frame pointer convention": [s0-16] previous s0, [s0-8] return address; CFA = s0.
 *          A leaf saves only the previous s0, at [s0-8], and leaves the return address in ra
 *          (what GCC does).
 */
struct kp_frame_layout {
	int32_t prev_fp_off; /* previous frame pointer */
	int32_t return_off; /* return address */
	int32_t leaf_prev_fp_off; /* previous frame pointer in a leaf frame, where leaf_in_ra is set */
	uint32_t leaf_in_ra; /* 1: a leaf may keep its return address in the ra register only */
	int32_t sp_after_off; /* the caller's sp is at least fp + this */
	uint32_t
		sp_after_exact; /* 1: it is exactly that; 0: it is not known from the frame pointer */
	uint32_t fp_align; /* alignment in bytes that a frame pointer has */
	uint64_t code_mask; /* bits of a code address; others hold PAC or tags and are cleared */
	uint64_t data_mask; /* bits of a data address (top byte ignored on aarch64) */
};

#define KP_DWARF_NONE 255

/* Numbers of the registers that a walk follows, in DWARF's counting for the CPU. */
struct kp_dwarf_numbers {
	uint8_t sp;
	uint8_t fp;
	uint8_t ra; /* the return address: the link register, or DWARF's column where there is none */
	uint8_t base; /* callee-saved, holds the CFA where code has moved sp at will; NONE: none is followed */
};

/*
 * What Linux leaves on the stack when it calls a signal handler: once the handler has returned, sp
 * is at the signal frame (on x86-64 at the ucontext within), and the code that runs is the
 * restorer, whose system call puts the interrupted registers back. Offsets in bytes from that sp.
 */
struct kp_signal_frame {
	uint16_t pc_off;
	uint16_t sp_off;
	uint16_t fp_off;
	uint16_t ra_off; /* 0: no link register */
	uint16_t base_off; /* 0: no base register */
	uint16_t link_off; /* of uc_link, which the kernel sets to 0 */
	uint8_t restorer_size;
	uint8_t restorer_bytes[9]; /* what a restorer begins with */
};

struct kp_arch {
	char name[8]; /* as `uname -m` says it; an array: a pointer would need a relocation */
	uint16_t elf_machine; /* e_machine, EM_... of elf.h */
	uint8_t syscall_size; /* bytes of a system call instruction */
	uint8_t syscall_bytes[4];
	struct kp_dwarf_numbers dwarf;
	struct kp_signal_frame signal;
	struct kp_frame_layout frame;
};

extern const struct kp_arch kp_arch_x86_64;
extern const struct kp_arch kp_arch_aarch64;
extern const struct kp_arch kp_arch_riscv64;

/* NULL where the machine is none of ours. */
const struct kp_arch *kp_arch_by_machine(uint16_t elf_machine);
