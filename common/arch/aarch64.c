/*
 * Facts about aarch64 (AAPCS64, Arm ARM). A constant table: no code, no pointers.
 * Part of the agent's image and of the daemon.
 */
#include "common/arch/arch.h"

const struct kp_arch kp_arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = 183, /* EM_AARCH64 */
	.syscall_size = 4,
	.syscall_bytes = { 0x01, 0x00, 0x00, 0xd4 }, /* svc #0 = d4000001, little-endian */
	.dwarf = { .sp = 31, .fp = 29, .ra = 30, .base = KP_DWARF_NONE }, /* AADWARF64 4.1 */
	/*
	 * arch/arm64/kernel/signal.c: struct rt_sigframe is siginfo, 128 bytes, and struct ucontext,
	 * with struct sigcontext at 176 (uapi/asm/{ucontext,sigcontext}.h).
	 */
	.signal = {
		.pc_off = 128 + 176 + 264,
		.sp_off = 128 + 176 + 256,
		.fp_off = 128 + 176 + 8 + 29 * 8,
		.ra_off = 128 + 176 + 8 + 30 * 8,
		.link_off = 128 + 8,
		/* mov x8, #139; svc #0: the vdso's, which on purpose has no CFI */
		.restorer_size = 8,
		.restorer_bytes = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 },
	},
	.frame = {
		.prev_fp_off = 0,
		.return_off = 8,
		/*
		 * A GCC leaf has no frame at all: x29 is its caller's, and nothing in the frame
		 * tells so; see common/unwind/fp.c.
		 */
		.leaf_in_ra = 0,
		.sp_after_off = 16,
		.sp_after_exact = 0, /* GCC has the record at the bottom of the frame */
		.fp_align = 8,
		/*
		 * Pointer authentication signs bits 48 to 54 (and, without TBI, 56 to 63) of a
		 * return address. Linux maps nothing above 2^48 unless a program asks for it by an
		 * address hint, and code is not mapped that way (Linux
		 * Documentation/arch/arm64/memory.rst).
		 */
		.code_mask = (UINT64_C(1) << 48) - 1,
		.data_mask = (UINT64_C(1) << 56) - 1, /* top byte: tags of MTE, HWASan */
	},
};
