/* Private to watch/: how the readers of what JIT compilers write tell of a function. */
#pragma once

#include "common/err.h"

#include <stdint.h>

/* Code at [start, end), end > start. name: not empty, valid until it returns. < 0 ends the reading. */
typedef int (*kp_compiled_fn)(void *ctx, uint64_t start, uint64_t end, const char *name,
			      struct kp_err *err);
