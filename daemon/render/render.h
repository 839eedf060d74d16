/*
 * Formats: a profile in, bytes out. One format a file; the table in render.c lists them.
 * Renderers change nothing, look nothing up, and give the same bytes for the same profile.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/parts.h"
#include "daemon/profile/profile.h"

#include <stdio.h>

/* What the user wants of every format, as far as it can. All zero is the usual. */
struct kp_render_options {
	enum kp_split split; /* who is told apart; pprof's labels tell all apart in any case */
};

struct kp_renderer {
	const char *name; /* what -f takes: "folded" */
	const char *extension; /* of its file, with the dot: ".folded" */
	const char *summary; /* one line for --help */
	const char *hint; /* a command that shows the file, whose path is put behind; or NULL */
	int (*render)(const struct kp_profile *p, const struct kp_render_options *options,
		      FILE *out, struct kp_err *err);
};

extern const struct kp_renderer kp_render_folded;
extern const struct kp_renderer kp_render_flat;
extern const struct kp_renderer kp_render_pprof;

/* The truth figures alone, without stacks: `report --stats`. Not among kp_renderers. */
extern const struct kp_renderer kp_render_stats; /* lines for people */
extern const struct kp_renderer kp_render_stats_json; /* one object; names of keys are stable */

/* The formats that -f takes. NULL-terminated. */
extern const struct kp_renderer *const kp_renderers[];

/* NULL if there is none of that name. */
const struct kp_renderer *kp_renderer_find(const char *name);

/*
 * Renders to a file: written beside it and renamed, so that a reader never sees half of it and a
 * failure leaves an old file alone. "-" is stdout.
 */
int kp_render_to_path(const struct kp_renderer *r, const struct kp_profile *p,
		      const struct kp_render_options *options, const char *path,
		      struct kp_err *err);

/*
 * The closing lines of truth (three at most, "kitprof: " before each) for stderr, and a warning
 * line where samples were dropped. program names the speaker: "kitprof".
 */
void kp_render_truth(const struct kp_profile *p, const char *program, FILE *out);
