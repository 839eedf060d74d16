/*
 * A jitdump: what JIT compilers write for perf (V8 --perf-prof, perf's agent for the JVM), with the
 * code itself, which is passed over here. The file is called jit-PID.dump, lies anywhere, and shows
 * by a page of it that the process maps executable. Layout: Linux,
 * tools/perf/Documentation/jitdump-specification.txt.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/compiled_fn.h"

#include <stdbool.h>
#include <stdio.h>

/* Whether a mapped file of that path is meant to be one. */
bool kp_jitdump_is_name(const char *path);

/*
 * From the start on, as far as it makes sense: a program that was killed leaves half a record. A file
 * that is no jitdump tells of nothing. What fn says, or -KP_ENOMEM.
 */
int kp_jitdump_read(FILE *dump, kp_compiled_fn fn, void *ctx, struct kp_err *err);
