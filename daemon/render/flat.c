/*
 * The flat report: a table for people. A head of lines with "#" says what the profile is worth;
 * then a line for each function, the most expensive first. Percentages are of what was delivered.
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
};

static uint64_t at_least_zero(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

static void put_share(const struct table *t, FILE *out, const int64_t *value)
{
	uint64_t part = at_least_zero(value[t->value]);
	uint64_t whole = at_least_zero(t->flat->total[t->value]);

	fprintf(out, "%8s", kp_text_percent(part, whole, 2).text);
	if (t->time)
		fprintf(out, " %10s", kp_text_number(part, UINT64_C(1000000000), 3).text);
	else
		fprintf(out, " %10" PRIu64, part);
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
	if (t->samples < t->p->value_count)
		fprintf(out, " %9" PRId64, row->self[t->samples]);
	fputs("  ", out);
	kp_text_put(out, t->p->strings[t->p->functions[row->function].name], 0);
	put_place(t, out, row);
	putc('\n', out);
}

static void put_head(const struct table *t, FILE *out)
{
	const struct kp_value_type *type = &t->p->value_type[t->value];
	const char *command = t->p->strings[t->p->truth.command];
	const char *unit = t->time ? "s" : t->p->strings[type->unit];
	int width = strlen(unit) < 9 ? 9 - (int)strlen(unit) : 0; /* of 10, right-aligned */

	if (*command) {
		fputs("# ", out);
		kp_text_put(out, command, 0);
		putc('\n', out);
	}
	kp_truth_put(t->p, "# ", out);
	fprintf(out, "# self: in the function itself; cum: and in all it called; %s in %s\n#\n",
		t->p->strings[type->type], unit);
	fprintf(out, "%8s %*s %s %8s %*s %s", "# self %", width, "self", unit, "cum %", width,
		"cum", unit);
	if (t->samples < t->p->value_count)
		fputs("   samples", out);
	fputs("  function\n", out);
}

static uint32_t find_samples(const struct kp_profile *p)
{
	uint32_t i = 0;

	while (i < p->value_count && strcmp(p->strings[p->value_type[i].type], "samples") != 0)
		i++;
	return i;
}

static int render(const struct kp_profile *p, FILE *out, struct kp_err *err)
{
	const char *unit = p->strings[p->value_type[p->default_value].unit];
	struct kp_flat flat;
	struct table t = {
		.p = p,
		.flat = &flat,
		.value = p->default_value,
		.samples = find_samples(p),
		.time = strcmp(unit, "nanoseconds") == 0,
	};
	int r = kp_flat_build(p, &flat, err);

	if (r < 0)
		return r;
	put_head(&t, out);
	for (uint32_t i = 0; i < flat.count; i++)
		put_row(&t, out, &flat.row[i]);
	kp_flat_deinit(&flat);
	return ferror(out) ? kp_fail_errno(err, "cannot write") : 0;
}

const struct kp_renderer kp_render_flat = {
	.name = "flat",
	.extension = ".txt",
	.summary = "a table of functions, the most expensive first",
	.render = render,
};
