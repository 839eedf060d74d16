/*
 * The entries of a call frame section: CIEs (what several functions have in common) and FDEs (the
 * range of one function, and the program that describes it). .eh_frame as in LSB Core 5.0, "The
 * .eh_frame section"; .debug_frame as in DWARF 5, 6.4.1.
 */
#pragma once

#include "daemon/unwind/pointer.h"
#include "daemon/unwind/state.h"

struct kp_cie {
	uint64_t offset; /* in the section */
	struct kp_bytes program; /* what each of its FDEs begins with */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_column; /* DWARF number */
	uint8_t encoding; /* of addresses in FDEs, DW_EH_PE_... */
	bool sized; /* FDEs have augmentation data with a length */
	struct kp_frame_traits traits;
	struct kp_frame_state initial; /* after program */
	const struct kp_entry_section *section;
};

struct kp_fde {
	uint64_t start, end; /* addresses */
	const uint8_t *program;
	uint32_t program_size;
	uint32_t cie; /* index */
	uint32_t order; /* in which they were read */
};

struct kp_entry_section {
	struct kp_pointer_base base;
	size_t size; /* of base.data */
	bool is_eh; /* .eh_frame */
	bool open_end; /* its size is not known: it ends with a length of 0 */
};

#define KP_ENTRY_SECTION_MAX 2

/* All entries of a file. CIEs point to its sections: it stays where it is. */
struct kp_entries {
	const struct kp_image *image;
	struct kp_entry_section section[KP_ENTRY_SECTION_MAX];
	uint32_t section_count;
	struct kp_cie *cie;
	struct kp_fde *fde;
	size_t cie_count, cie_room, fde_count, fde_room;
	uint32_t bad_fdes;
};

void kp_entries_deinit(struct kp_entries *entries);

/*
 * Adds those of a section, whose bytes must live as long as they. FDEs that make no sense are
 * counted, those of no code in the file (functions that the linker left out) are not even that. 0
 * or -KP_ENOMEM, without words.
 */
int kp_entries_add(struct kp_entries *entries, const struct kp_entry_section *added);
