/* What a session leaves behind: names of the result files, rendering, the closing lines. */
#pragma once

#include "common/err.h"
#include "daemon/cmd/options.h"
#include "daemon/symbol/pin.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Path of a result file: that of the folded one (options->output, default prof.folded, "-" counts
 * as the default here) with another extension. Returns ret.
 */
const char *kp_output_path(const struct kp_options *o, const char *extension, char *ret,
			   size_t size);

/*
 * Names and renders a raw profile into all the files that the options ask for, and says how true it
 * is; only prints that, if options->stats. raw_path: to be named among what was written, or NULL.
 * *ret_kept: samples in it.
 */
int kp_output_write(const struct kp_options *o, const char *program, const void *raw, size_t size,
		    const char *raw_name, const char *raw_path, const struct kp_pins *pins,
		    uint64_t *ret_kept, struct kp_err *err);
