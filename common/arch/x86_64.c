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
	/*
	 * psABI 3.6.2, figure 3.36. rbx: glibc's _dl_runtime_resolve (sysdeps/x86_64/
	 * dl-trampoline.h) keeps its stack pointer there while it calls on.
	 */
	.dwarf = { .sp = 7, .fp = 6, .ra = 16, .base = 3 },
	/*
	 * arch/x86/include/asm/sigframe.h: struct rt_sigframe_x64 begins with the return address,
	 * which is popped; then struct ucontext with struct sigcontext_64 at 40
	 * (uapi/asm/{ucontext,sigcontext}.h).
	 */
	.signal = {
		.pc_off = 40 + 128,
		.sp_off = 40 + 120,
		.fp_off = 40 + 80,
		.base_off = 40 + 88,
		.link_off = 8,
		/* mov $15,%rax; syscall: glibc, musl and Go all write it so */
		.restorer_size = 9,
		.restorer_bytes = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 },
	},
	.frame = {
		.prev_fp_off = 0,
		.return_off = 8,
		.leaf_in_ra = 0,
		.sp_after_off = 16,
		.sp_after_exact = 1,
		/*
		 * By the psABI rbp is 16-aligned in a function that has it as frame pointer, but Go
		 * and hand-written code only promise a word.
		 */
		.fp_align = 8,
		.code_mask = UINT64_MAX,
		.data_mask = UINT64_MAX,
	},
};
