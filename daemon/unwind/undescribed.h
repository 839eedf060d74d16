/*
 * Code that no call frame information describes: which it is, and where its functions begin. Only
 * x86-64, and not of Go programs, whose frame pointers are the better guide. Runs in the daemon.
 */
#pragma once

#include "daemon/unwind/entries.h"
#include "daemon/unwind/flow.h"

/*
 * The code of executable sections in which no FDE of entries lies (sorted, not overlapping), read
 * through. *ret is NULL where there is none. 0 or -KP_ENOMEM, without words.
 */
int kp_undescribed_read(const struct kp_entries *entries, struct kp_flow **ret);
