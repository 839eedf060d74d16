/*
 * The unwind table of a module (common/unwind/table.h, docs/unwinding.md) out of what its compiler
 * left for unwinding: .eh_frame, and .debug_frame for what is not in there; of Go programs, what is
 * known of their code by name; of other code for x86-64 that nothing describes, what it says itself.
 * Runs in the daemon; pure: bytes in, a table out. The file may be damaged or hostile: an entry that makes no sense
 * costs its own range, not the rest; time and memory are bounded by the size of the file.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/table.h"

#include <stddef.h>
#include <stdint.h>

/* > 0: the file is fine, and says nothing about unwinding. */
#define KP_UNWIND_NONE 1

/* What a table holds, in figures. An FDE describes a range of code, mostly a function. */
struct kp_unwind_stats {
	uint32_t fdes; /* in the table */
	uint32_t bad_fdes; /* make no sense in whole or from some instruction on: left out so far */
	uint32_t rows, rules;
	uint64_t code_bytes; /* of the executable sections, or segments where there are none */
	uint64_t cfa_bytes[KP_CFA_COUNT]; /* of them by enum kp_cfa_kind */
	uint64_t lost_fp_bytes; /* of them with a caller, but without its frame pointer */
};

/*
 * The table for an ELF file whose content lies at image: mapped or read by the caller,
 * or, for the vdso, as it lies in memory. name: for messages. A file that is cut or changed while
 * it is mapped (SIGBUS) is the caller's business.
 *
 * 0: *ret, to be freed, *ret_bytes long, 8-aligned; ret_stats may be NULL. KP_UNWIND_NONE.
 * -KP_EBADDATA: not an ELF file of a CPU of ours, or damaged where it matters; -KP_ENOMEM.
 */
int kp_unwind_build(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		    struct kp_unwind_stats *ret_stats, struct kp_err *err);
