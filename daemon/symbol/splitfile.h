/*
 * Files of split DWARF: .dwo, which a compiler writes beside the object file, and .dwp, a package of
 * many. What of them belongs to one unit.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"

#include <stddef.h>
#include <stdint.h>

/* It has no such unit. */
#define KP_SPLITFILE_NONE 1

/* A part of a section, in the file's own buffers. Empty: there is none. */
struct kp_piece {
	const uint8_t *data;
	size_t size;
};

/* By the names of their sections, without .debug_ and .dwo. */
struct kp_split_pieces {
	struct kp_piece info, abbrev, line, str, str_offsets, rnglists;
};

/*
 * The pieces that have the unit of that id, valid as long as file is open. Those of a .dwo file are
 * its sections, without a look whether the unit is in it. KP_EBADDATA: damaged, or of a kind that is
 * not read.
 */
int kp_splitfile_pieces(const struct kp_elf_file *file, uint64_t id, struct kp_split_pieces *ret,
			struct kp_err *err);

/* A section of DWARF, unpacked if it is compressed. */
struct kp_piece kp_splitfile_section(const struct kp_elf_file *file, const char *name);
