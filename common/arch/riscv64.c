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
	.frame = {
		.prev_fp_off = -16,
		.return_off = -8,
		.leaf_prev_fp_off = -8, /* GCC 12, -fno-omit-frame-pointer: sd s0, no ra */
		.leaf_in_ra = 1,
		.sp_after_off = 0, /* s0 is the CFA, the caller's sp */
		.fp_align = 8,
		.code_mask = UINT64_MAX,
		.data_mask = UINT64_MAX,
	},
};
