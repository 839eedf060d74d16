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

/* A raw profile that is to become results. */
struct kp_output_source {
	const void *raw;
	size_t size;
	const char *name; /* for messages */
	const char *path; /* to be named among what was written, or NULL */
	const struct kp_pins *pins;
	void (*wrote)(void *ctx, const char *path); /* each file; may be NULL */
	void *ctx;
};

/*
 * Names and renders a raw profile into all the files that the options ask for, and says how true it
 * is; only prints that, if options->stats. *ret_kept: samples in it.
 */
int kp_output_write(const struct kp_options *o, const char *program,
		    const struct kp_output_source *source, uint64_t *ret_kept, struct kp_err *err);
