/*
 * Facts about riscv64 (RISC-V ELF psABI). A constant table: no code, no pointers.
 * Part of the agent's image and of the daemon.
 */
#include "common/arch/arch.h"

const struct kp_arch kp_arch_riscv64 = {
	.name = "riscv64",
	.elf_machine = 243, /* EM_RISCV */
	.syscall_size = 4,
	.syscall_bytes = { 0x73, 0x00, 0x00, 0x00 }, /* ecall, little-endian */
	.dwarf = { .sp = 2, .fp = 8, .ra = 1, .base = KP_DWARF_NONE }, /* psABI, "DWARF Register Numbers" */
	/*
	 * arch/riscv/kernel/signal.c: struct rt_sigframe is siginfo, 128 bytes, and struct ucontext,
	 * with struct sigcontext at 176, which begins with struct user_regs_struct
	 * (uapi/asm/{ucontext,sigcontext,ptrace}.h).
	 */
	.signal = {
		.pc_off = 128 + 176,
		.sp_off = 128 + 176 + 2 * 8,
		.fp_off = 128 + 176 + 8 * 8,
		.ra_off = 128 + 176 + 1 * 8,
		.link_off = 128 + 8,
		/* li a7, 139; ecall: the vdso's */
		.restorer_size = 8,
		.restorer_bytes = { 0x93, 0x08, 0xb0, 0x08, 0x73, 0x00, 0x00, 0x00 },
	},
	.frame = {
		.prev_fp_off = -16,
		.return_off = -8,
		.leaf_prev_fp_off = -8, /* GCC 12, -fno-omit-frame-pointer: sd s0, no ra */
		.leaf_in_ra = 1,
		.sp_after_off = 0, /* s0 is the CFA, the caller's sp */
		.sp_after_exact = 1,
		.fp_align = 8,
		.code_mask = UINT64_MAX,
		.data_mask = UINT64_MAX,
	},
};
