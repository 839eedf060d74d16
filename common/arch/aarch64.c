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
	.frame = {
		.prev_fp_off = 0,
		.return_off = 8,
		/*
		 * A GCC leaf has no frame at all: x29 is its caller's, and nothing in the frame
		 * tells so; see common/unwind/fp.c.
		 */
		.leaf_in_ra = 0,
		.sp_after_off = 16,
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
