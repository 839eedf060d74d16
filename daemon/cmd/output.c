/* What a session leaves behind: output.h. */
#include "daemon/cmd/output.h"

#include "common/cleanup.h"
#include "daemon/cache/cache.h"
#include "daemon/cmd/cmd.h"
#include "daemon/linux/monotonic.h"
#include "daemon/profile/collect.h"
#include "daemon/symbol/answer_cache.h"

#include <string.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(1000000000) /* of somebody who sees nothing */

struct writer {
	const struct kp_options *options;
	const char *program;
	const struct kp_output_source *source;
	char *written; /* names so far, separated by ", " */
	size_t written_size;
	FILE *names; /* writes to it */
	FILE *hints;
	char *hint;
	size_t hint_size;
	uint64_t begun_ns; /* with the names */
	bool progress_shown;
};

const char *kp_output_path(const struct kp_options *o, const char *extension, char *ret,
			   size_t size)
{
	static const char folded[] = ".folded";
	const char *base = o->output && strcmp(o->output, "-") != 0 ? o->output : "prof.folded";
	size_t len = strlen(base), tail = sizeof(folded) - 1;

	if (len > tail && strcmp(base + len - tail, folded) == 0)
		len -= tail;
	snprintf(ret, size, "%.*s%s", (int)len, base, extension);
	return ret;
}

static void note(struct writer *w, const struct kp_renderer *renderer, const char *path)
{
	if (strcmp(path, "-") == 0)
		return;
	if (w->source->wrote)
		w->source->wrote(w->source->ctx, path);
	fprintf(w->names, "%s%s", ftell(w->names) ? ", " : "", path);
	if (renderer && renderer->hint)
		fprintf(w->hints, " (%s %s)", renderer->hint, path);
}

static int write_one(struct writer *w, const struct kp_renderer *renderer,
		     const struct kp_profile *p, const char *path, struct kp_err *err)
{
	int r = kp_render_to_path(renderer, p, &w->options->render, path, err);

	if (r == 0)
		note(w, renderer, path);
	return r;
}

/* Each is tried: a full disk for one format does not take the others along. The first error counts. */
static int write_all(struct writer *w, const struct kp_profile *p, struct kp_err *err)
{
	const struct kp_options *o = w->options;
	char path[4096];
	struct kp_err other;
	int r = 0;

	if (!o->no_folded)
		r = write_one(w, &kp_render_folded, p,
			      o->output ? o->output
					: kp_output_path(o, ".folded", path, sizeof(path)),
			      err);
	if (!o->no_flat) {
		int each =
			write_one(w, &kp_render_flat, p,
				  kp_output_path(o, ".flat", path, sizeof(path)), r ? &other : err);

		r = r ? r : each;
	}
	for (size_t i = 0; i < o->output_count; i++) {
		const struct kp_output *output = &o->outputs[i];
		const char *to = output->path ? output->path
					      : kp_output_path(o, output->renderer->extension, path,
							       sizeof(path));
		int each = write_one(w, output->renderer, p, to, r ? &other : err);

		r = r ? r : each;
	}
	return r;
}

static void remark(void *ctx, const char *line)
{
	const struct writer *w = ctx;

	if (w->options->verbose)
		kp_cmd_say(w->program, line);
}

/* From where names came, and from where not. */
static void say_fetched(void *ctx, const char *line)
{
	const struct writer *w = ctx;

	if (w->progress_shown)
		fputs("\r\x1b[K", stderr);
	if (!w->options->quiet)
		kp_cmd_say(w->program, line);
}

/* Somebody who waits for long sees what for. */
static void show_progress(void *ctx, const struct kp_symbolizer_progress *progress)
{
	struct writer *w = ctx;

	if (kp_now_ns() - w->begun_ns < PATIENCE_NS)
		return;
	fprintf(stderr, "\r%s: looking up names: %zu of %zu files, %llu of %llu addresses\x1b[K\r",
		w->program, progress->modules_done, progress->modules,
		(unsigned long long)progress->done, (unsigned long long)progress->asked);
	w->progress_shown = true;
}

/* Names of earlier times. NULL: there is no place for them, and they are looked up each time. */
static struct kp_cache *open_names(const struct writer *w)
{
	struct kp_cache *cache = NULL;
	struct kp_err why;
	char base[4096], line[600];

	if (kp_cache_base(base, sizeof(base), &why) == 0 &&
	    kp_cache_create(base, &kp_answer_cache_kind, KP_ANSWER_CACHE_BYTES, &cache, &why) == 0)
		return cache;
	if (w->options->verbose) {
		snprintf(line, sizeof(line), "names are not kept for the next time: %s", why.text);
		kp_cmd_say(w->program, line);
	}
	return NULL;
}

static int collect(struct writer *w, struct kp_profile **ret, struct kp_err *err)
{
	const struct kp_options *o = w->options;
	struct kp_collect_options options = {
		.name = w->source->name,
		.pins = w->source->pins,
		.debug_dirs = o->symbols_count ? o->symbols : NULL,
		.sysroot = o->sysroot,
		.system_calls = o->system_calls,
		.remark = remark,
		.names = open_names(w),
		.symbol_budget_ns = o->symbol_budget_ns,
		.fetch_ns = o->debuginfod_ns,
		.fetched = say_fetched,
		.progress = !o->quiet && isatty(STDERR_FILENO) ? show_progress : NULL,
		.ctx = w,
	};
	int r;

	w->begun_ns = kp_now_ns();
	r = kp_collect(w->source->raw, w->source->size, &options, ret, err);
	kp_cache_destroy(options.names);
	if (w->progress_shown)
		fputs("\r\x1b[K", stderr);
	return r;
}

static int print_stats(const struct writer *w, const struct kp_profile *p, struct kp_err *err)
{
	const struct kp_options *o = w->options;

	return kp_render_to_path(o->json ? &kp_render_stats_json : &kp_render_stats, p, &o->render,
				 "-", err);
}

static int write_profile(struct writer *w, const struct kp_profile *p, struct kp_err *err)
{
	int r;

	w->names = open_memstream(&w->written, &w->written_size);
	w->hints = open_memstream(&w->hint, &w->hint_size);
	if (!w->names || !w->hints)
		return kp_fail_nomem(err);
	r = write_all(w, p, err);
	if (w->source->path)
		note(w, NULL, w->source->path);
	fflush(w->names);
	fflush(w->hints);
	if (!w->options->quiet) {
		kp_render_truth(p, w->program, stderr);
		if (w->written_size)
			fprintf(stderr, "%s: wrote %s%s\n", w->program, w->written, w->hint);
	}
	return r;
}

int kp_output_write(const struct kp_options *o, const char *program,
		    const struct kp_output_source *source, uint64_t *ret_kept, struct kp_err *err)
{
	struct writer w = { .options = o, .program = program, .source = source };
	struct kp_profile *p = NULL;
	int r = collect(&w, &p, err);

	if (r < 0)
		return r;
	r = o->stats ? print_stats(&w, p, err) : write_profile(&w, p, err);
	*ret_kept = p->truth.kept;
	if (w.names)
		fclose(w.names);
	if (w.hints)
		fclose(w.hints);
	free(w.written);
	free(w.hint);
	kp_profile_destroy(p);
	return r;
}
