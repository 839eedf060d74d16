/*
 * Facts about x86-64 (System V psABI, Intel SDM). A constant table: no code, no pointers.
 * Part of the agent's image and of the daemon.
 */
#include "common/arch/arch.h"

const struct kp_arch kp_arch_x86_64 = {
	.name = "x86_64",
	.elf_machine = 62, /* EM_X86_64 */
	.syscall_size = 2,
	.syscall_bytes = { 0x0f, 0x05 }, /* syscall */
	.frame = {
		.prev_fp_off = 0,
		.return_off = 8,
		.leaf_in_ra = 0,
		.sp_after_off = 16,
		/*
		 * By the psABI rbp is 16-aligned in a function that has it as frame pointer, but Go
		 * and hand-written code only promise a word.
		 */
		.fp_align = 8,
		.code_mask = UINT64_MAX,
		.data_mask = UINT64_MAX,
	},
};
