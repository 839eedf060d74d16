/*
 * The split half of one unit of DWARF, made readable as if it had never been split: libdw reads .dwo
 * files only where it finds them itself, and packages (.dwp) not at all in the versions that we can
 * count on.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/splitfile.h"

#include <elfutils/libdw.h>

struct kp_split;

/* The unit is in none of the pieces. */
#define KP_SPLIT_NONE_HERE 1

/*
 * main: the file that has the skeleton unit. The pieces must stay, and main open. ret_unit: the
 * half's DIE, valid until it is closed. < 0 with KP_EBADDATA where it cannot be read.
 */
int kp_split_open(const struct kp_elf_file *main, Dwarf_Die *skeleton,
		  const struct kp_split_pieces *pieces, struct kp_split **ret, Dwarf_Die *ret_unit,
		  struct kp_err *err);
void kp_split_close(struct kp_split *split);

/* The id by which halves find each other; false if the unit is no skeleton. */
bool kp_split_id(Dwarf_Die *unit, uint64_t *ret);
