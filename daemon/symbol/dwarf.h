/*
 * The DWARF of a module: which unit an address belongs to. Units are read when first asked for.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/unit.h"

#include <stdint.h>

struct kp_dwarf;

/*
 * debug: the file that has .debug_info, alt: what dwz moved out of it, or NULL; module: the file
 * that has the text (may be debug); dirs: where files of split DWARF are sought, beside their own
 * places, NULL-terminated. All are borrowed and must outlive the kp_dwarf. < 0 with KP_EBADDATA where
 * there is none or it cannot be read.
 */
int kp_dwarf_open(const struct kp_elf_file *debug, const struct kp_elf_file *alt,
		  const struct kp_elf_file *module, const char *const *dirs, struct kp_dwarf **ret,
		  struct kp_err *err);
void kp_dwarf_close(struct kp_dwarf *dwarf);

/* What was missing for the units that were read up to now, in one line; NULL: nothing. */
const char *kp_dwarf_note(const struct kp_dwarf *dwarf);

/* The unit that has code at the address, loaded; *ret is NULL if there is none. */
int kp_dwarf_unit(struct kp_dwarf *dwarf, uint64_t address, struct kp_unit **ret,
		  struct kp_err *err);
