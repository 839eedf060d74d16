/*
 * The joint between symbolization and the profile core: what is known of one address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * One source-level frame. Strings are NUL-terminated valid UTF-8 and live as long as the
 * symbolizer that gave them.
 */
struct kp_frame {
	const char *name; /* demangled, whole (parameters and template arguments kept) */
	const char *system_name; /* as in the symbol table or DWARF linkage name */
	const char *file; /* source file, or NULL */
	uint32_t line; /* line executed (for outer frames of an inline: the call site); 0 unknown */
	uint32_t start_line; /* where the function is declared; 0 unknown */
	bool inlined; /* this frame was inlined into the next one */
};

/*
 * The frames at one address, innermost first; the last one is the out-of-line function.
 * count is 0 where nothing is known.
 */
struct kp_frames {
	const struct kp_frame *frame;
	uint32_t count;
	uint64_t address; /* the address in the ELF file's own numbering (what addr2line takes); the
			     file offset where the file could not be read */
};
