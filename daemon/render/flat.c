/*
 * The flat report: a table for people. A head of lines with "#" says what the profile is worth;
 * then a line for each function, the most expensive first. Percentages are of what was delivered.
 *
 * Where processes or threads are told apart each has a section, the one with the most CPU time
 * first: a line that says who it is and its share of all, and its functions. "self %" and "cum %"
 * are of the section then, and "all %" is self of the whole profile.
 */
#include "daemon/render/render.h"

#include "daemon/profile/flat.h"
#include "daemon/render/text.h"
#include "daemon/render/truth.h"

#include <inttypes.h>
#include <string.h>

struct table {
	const struct kp_profile *p;
	const struct kp_flat *flat;
	uint32_t value; /* that percentages and sums are of */
	uint32_t samples; /* index of the value "samples"; value_count: there is none */
	bool time; /* the value is in nanoseconds: shown in seconds */
	enum kp_split split;
	int64_t whole; /* of all parts */
};

static uint64_t at_least_zero(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

static struct kp_text_number percent(int64_t part, int64_t whole)
{
	return kp_text_percent(at_least_zero(part), at_least_zero(whole), 2);
}

static struct kp_text_number amount(const struct table *t, int64_t value)
{
	return kp_text_number(at_least_zero(value), t->time ? UINT64_C(1000000000) : 1,
			      t->time ? 3 : 0);
}

static void put_share(const struct table *t, FILE *out, const int64_t *value)
{
	fprintf(out, "%8s %10s", percent(value[t->value], t->flat->total[t->value]).text,
		amount(t, value[t->value]).text);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Where the function is: its source, else the file that it was loaded from. */
static void put_place(const struct table *t, FILE *out, const struct kp_flat_row *row)
{
	const struct kp_function *f = &t->p->functions[row->function];
	const char *module = t->p->strings[t->p->mappings[row->mapping].filename];

	if (f->file) {
		fputs("  ", out);
		kp_text_put(out, t->p->strings[f->file], 0);
		if (f->start_line)
			fprintf(out, ":%u", f->start_line);
	} else if (*module && !f->unnamed) {
		fputs("  ", out);
		kp_text_put(out, base_name(module), 0);
	}
}

static void put_row(const struct table *t, FILE *out, const struct kp_flat_row *row)
{
	put_share(t, out, row->self);
	putc(' ', out);
	put_share(t, out, row->cumulative);
	if (t->split != KP_SPLIT_NONE)
		fprintf(out, " %8s", percent(row->self[t->value], t->whole).text);
	if (t->samples < t->p->value_count)
		fprintf(out, " %9" PRId64, row->self[t->samples]);
	fputs("  ", out);
	kp_text_put(out, t->p->strings[t->p->functions[row->function].name], 0);
	put_place(t, out, row);
	putc('\n', out);
}

static const char *unit_of(const struct table *t)
{
	return t->time ? "s" : t->p->strings[t->p->value_type[t->value].unit];
}

static void put_head(const struct table *t, FILE *out)
{
	static const char *const what[] = {
		[KP_SPLIT_PROCESS] = "process", [KP_SPLIT_THREAD] = "thread"
	};
	const char *command = t->p->strings[t->p->truth.command];

	if (*command) {
		fputs("# ", out);
		kp_text_put(out, command, 0);
		putc('\n', out);
	}
	kp_truth_put(t->p, "# ", out);
	fprintf(out, "# self: in the function itself; cum: and in all it called; %s in %s\n",
		t->p->strings[t->p->value_type[t->value].type], unit_of(t));
	if (t->split != KP_SPLIT_NONE)
		fprintf(out,
			"# self %% and cum %%: of the %s; all %%: self, of all of the profile\n",
			what[t->split]);
}

static void put_columns(const struct table *t, FILE *out)
{
	const char *unit = unit_of(t);
	int width = strlen(unit) < 9 ? 9 - (int)strlen(unit) : 0; /* of 10, right-aligned */

	fprintf(out, "%8s %*s %s %8s %*s %s", "# self %", width, "self", unit, "cum %", width,
		"cum", unit);
	if (t->split != KP_SPLIT_NONE)
		fputs("    all %", out);
	if (t->samples < t->p->value_count)
		fputs("   samples", out);
	fputs("  function\n", out);
}

static void put_name(const struct table *t, FILE *out, uint32_t name)
{
	const char *text = t->p->strings[name];

	kp_text_put(out, *text ? text : "[unknown]", 0);
}

/* "# thread worker (tid 101) of shop (pid 100): cpu 0.018 s, 25.35 % of all, 6 samples" */
static void put_who(const struct table *t, FILE *out, const struct kp_part *part)
{
	const struct kp_label *who = &t->p->labels[part->label];
	int64_t value = part->total[t->value];

	fputs("#\n# ", out);
	if (t->split == KP_SPLIT_THREAD) {
		fputs("thread ", out);
		put_name(t, out, who->thread_name);
		fprintf(out, " (tid %u) of ", who->tid);
	} else {
		fputs("process ", out);
	}
	put_name(t, out, who->comm);
	fprintf(out, " (pid %u): %s %s %s, %s %% of all", who->pid,
		t->p->strings[t->p->value_type[t->value].type], amount(t, value).text, unit_of(t),
		percent(value, t->whole).text);
	if (t->samples < t->p->value_count)
		fprintf(out, ", %" PRId64 " sample%s", part->total[t->samples],
			part->total[t->samples] == 1 ? "" : "s");
	putc('\n', out);
}

/* The functions of so many samples; sample NULL: of all. */
static int put_functions(struct table *t, const uint32_t *sample, uint32_t n, FILE *out,
			 struct kp_err *err)
{
	struct kp_flat flat;
	int r = kp_flat_build(t->p, sample, n, &flat, err);

	if (r < 0)
		return r;
	t->flat = &flat;
	put_columns(t, out);
	for (uint32_t i = 0; i < flat.count; i++)
		put_row(t, out, &flat.row[i]);
	kp_flat_deinit(&flat);
	return 0;
}

static int put_sections(struct table *t, FILE *out, struct kp_err *err)
{
	struct kp_parts parts;
	int r = kp_parts_build(t->p, t->split, &parts, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < parts.count; i++)
		t->whole = kp_value_sum(t->whole, parts.part[i].total[t->value]);
	for (uint32_t i = 0; i < parts.count && r == 0; i++) {
		const struct kp_part *part = &parts.part[i];

		put_who(t, out, part);
		r = put_functions(t, &parts.sample[part->first], part->count, out, err);
	}
	kp_parts_deinit(&parts);
	return r;
}

static int render(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		  struct kp_err *err)
{
	const char *unit = p->strings[p->value_type[p->default_value].unit];
	struct table t = {
		.p = p,
		.value = p->default_value,
		.samples = kp_profile_value(p, "samples"),
		.time = strcmp(unit, "nanoseconds") == 0,
		.split = options->split,
	};
	int r;

	put_head(&t, out);
	if (t.split == KP_SPLIT_NONE) {
		fputs("#\n", out);
		r = put_functions(&t, NULL, 0, out, err);
	} else {
		r = put_sections(&t, out, err);
	}
	return r == 0 && ferror(out) ? kp_fail_errno(err, "cannot write") : r;
}

const struct kp_renderer kp_render_flat = {
	.name = "flat",
	.extension = ".txt",
	.summary = "a table of functions, the most expensive first",
	.render = render,
};
