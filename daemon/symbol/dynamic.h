/*
 * The symbols of an ELF file without section headers, as the loader finds them: through
 * PT_DYNAMIC. For files that sstrip or a packer went over, or whose end is missing.
 */
#pragma once

#include "daemon/symbol/elffile.h"

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>

/* Valid as long as the file is open. */
struct kp_dynamic {
	Elf_Data *symbols; /* count of them, for gelf_getsym() */
	size_t count;
	const char *strings; /* the last byte is NUL */
	size_t string_size;
};

/* False: the file does not say, or says what cannot be. */
bool kp_dynamic_read(const struct kp_elf_file *file, struct kp_dynamic *ret);

/* The name at this place of the string table, or NULL. */
const char *kp_dynamic_string(const struct kp_dynamic *dynamic, size_t at);
