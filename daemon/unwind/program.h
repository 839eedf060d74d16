/* Call frame programs (DWARF 5, 6.4.2): the instructions of a CIE or an FDE, executed. */
#pragma once

#include "daemon/unwind/entries.h"
#include "daemon/unwind/rows.h"

/*
 * The state that the CIE's program leaves, to cie->initial. False if the program makes no sense.
 */
bool kp_program_start(struct kp_cie *cie);

/*
 * Writes the rows of an FDE. 0; -KP_EBADDATA if its program makes no
 * sense: then the rows before are written, and the rest is INVALID; -KP_ENOMEM. Without words.
 */
int kp_program_run(const struct kp_cie *cie, const struct kp_fde *fde, struct kp_rows *rows);
