/* One address of an open module -> its frames, from DWARF and the symbol table together. */
#pragma once

#include "common/err.h"
#include "daemon/symbol/arena.h"
#include "daemon/symbol/frame.h"
#include "daemon/symbol/module.h"
#include "daemon/symbol/names.h"

/*
 * Fills in *ret but for its address; count 0 where nothing is known. The frames are put into the
 * arena, their strings into names. < 0 only when out of memory.
 */
int kp_lookup(struct kp_module *module, struct kp_names *names, struct kp_arena *arena,
	      uint64_t address, struct kp_frames *ret, struct kp_err *err);
