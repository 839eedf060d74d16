/*
 * The line number program of one unit, read by ourselves: libdw gives its rows sorted by address and
 * does not say which sequence a row is of. Functions that the linker dropped leave their sequences
 * at address 0 (or just below it), and a large one reaches to where the text is: between the rows of
 * the functions that are there. Functions that it found equal and made one leave one sequence each,
 * all at the same addresses.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/rangemap.h"

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

struct kp_line_row {
	uint64_t address;
	uint32_t file, line; /* file: as in the unit's table */
};

struct kp_lineprog;

/*
 * Takes the sequences that begin in the module's text, of several from one address on the first. Damage ends the reading early, and *ret may
 * be NULL: there is none, or of a kind that is not known (more than one operation at an address).
 * < 0 only when out of memory.
 */
int kp_lineprog_read(Dwarf_Die *cu, const struct kp_elf_file *module, struct kp_lineprog **ret,
		     struct kp_err *err);
void kp_lineprog_destroy(struct kp_lineprog *lines);

/* The row that covers the address, or NULL. */
const struct kp_line_row *kp_lineprog_find(const struct kp_lineprog *lines, uint64_t address);
