/*
 * Folded stacks: one line a distinct stack, "process;root;...;leaf weight", sorted by bytes, as
 * flamegraph.pl, speedscope and others read it. The format has no comments and no escapes: losses
 * are told elsewhere, and names are bent where they would break a line (see put_frame). An inlined
 * frame is a frame like others; "[truncated]" stands right behind the process.
 *
 * Who ran is the first frame: the process's name; "name-PID" where processes are told apart;
 * "name-PID/thread-TID" where threads are. It can be taken apart again: the first "/" is the one
 * between the two (one in the process's name becomes ":"), and the id is behind the last "-".
 *
 * Weights are whole numbers. Time is given in periods of the fastest clock in use, rounded to
 * the nearest, at least 1. With one clock and no overrun that is exactly the number of samples.
 * With several clocks, or where a timer's expirations shared a signal, the bare number of samples
 * is not proportional to time, and the shares in the picture would be wrong; this is.
 */
#include "daemon/render/render.h"

#include "common/cleanup.h"
#include "daemon/profile/tree.h"
#include "daemon/render/text.h"
#include "daemon/render/truth.h"

#include <inttypes.h>
#include <string.h>

/* What is rendered. */
struct picture {
	const struct kp_profile *p;
	const struct kp_tree *tree;
	const struct kp_parts *parts;
	enum kp_split split;
};

struct line {
	char *text;
	int64_t weight;
};

/* ---- names ---- */

/*
 * A leaf "foo 12" before its weight 34 would read "foo 12 34", which flamegraph.pl takes for two
 * weights, a diff. Returns where the space before such a number is, or NULL.
 */
static char *space_before_number(char *name)
{
	char *space = strrchr(name, ' ');
	size_t digits, fraction = 0;

	if (!space)
		return NULL;
	digits = strspn(space + 1, "0123456789");
	if (digits && space[1 + digits] == '.')
		fraction = 1 + strspn(space + 1 + digits + 1, "0123456789");
	return digits && !space[1 + digits + fraction] ? space : NULL;
}

static void put_name(FILE *out, const struct kp_profile *p, uint32_t name, unsigned int also)
{
	const char *text = p->strings[name];

	kp_text_put(out, *text ? text : "[unknown]", also | KP_TEXT_COLON);
}

/* Some readers split at the first space: there is none. */
static void put_who(FILE *out, const struct picture *c, uint32_t part)
{
	const struct kp_label *who = &c->p->labels[c->parts->part[part].label];
	bool pid = c->split != KP_SPLIT_NONE;

	put_name(out, c->p, who->comm, KP_TEXT_JOIN | (pid ? KP_TEXT_SLASH : 0));
	if (pid)
		fprintf(out, "-%u", who->pid);
	if (c->split != KP_SPLIT_THREAD)
		return;
	putc('/', out);
	put_name(out, c->p, who->thread_name, KP_TEXT_JOIN);
	fprintf(out, "-%u", who->tid);
}

static void put_path(FILE *out, const struct picture *c, uint32_t leaf, uint32_t *path)
{
	const struct kp_tree_node *node = c->tree->node;
	uint32_t n = 0;

	for (uint32_t at = leaf; node[at].parent; at = node[at].parent)
		path[n++] = at;
	put_who(out, c, node[leaf].part);
	while (n > 0) {
		putc(';', out);
		put_name(out, c->p, node[path[--n]].name, 0);
	}
}

/* ---- weights ---- */

static uint64_t base_period(const struct kp_profile *p)
{
	const struct kp_value_type *type = &p->value_type[p->default_value];

	/* Instructions, bytes and the like are whole numbers already. */
	if (strcmp(p->strings[type->unit], "nanoseconds") != 0)
		return 0;
	return kp_truth_period_ns(&p->truth);
}

static uint64_t in_periods(int64_t value, uint64_t period)
{
	uint64_t v = value > 0 ? (uint64_t)value : 0;
	uint64_t periods = period ? v / period + (v % period >= period - period / 2) : v;

	return periods ? periods : 1;
}

/* ---- lines ---- */

static int compare_text(const void *left, const void *right)
{
	const struct line *a = left, *b = right;

	return strcmp(a->text, b->text);
}

/* Two names may have become one by bending; joins the lines of the same text, sorted. */
static uint32_t merge(struct line *line, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (kept && strcmp(line[kept - 1].text, line[i].text) == 0) {
			line[kept - 1].weight = kp_value_sum(line[kept - 1].weight, line[i].weight);
			free(line[i].text);
		} else {
			line[kept++] = line[i];
		}
	}
	return kept;
}

static void free_lines(struct line *line, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		free(line[i].text);
	free(line);
}

/* The text of a line without its weight, malloc'd. */
static int make_text(const struct picture *c, uint32_t leaf, uint32_t *path, char **ret,
		     struct kp_err *err)
{
	char *space;
	size_t size;
	FILE *out;
	int r;

	*ret = NULL;
	out = open_memstream(ret, &size);
	if (!out)
		return kp_fail_nomem(err);
	put_path(out, c, leaf, path);
	r = kp_text_close(out, ret, err);
	if (r < 0)
		return r;
	space = space_before_number(*ret);
	if (space)
		*space = '_';
	return 0;
}

static int make_lines(const struct picture *c, struct line *line, uint32_t *ret_n,
		      struct kp_err *err)
{
	const struct kp_tree *tree = c->tree;
	_cleanup_(kp_freep) uint32_t *path = calloc(tree->count, sizeof(*path));
	uint32_t v = c->p->default_value;
	int r;

	if (!path)
		return kp_fail_nomem(err);
	for (uint32_t i = 1; i < tree->count; i++) {
		if (tree->node[i].self[v] == 0)
			continue;
		r = make_text(c, i, path, &line[*ret_n].text, err);
		if (r < 0)
			return r;
		line[*ret_n].weight = tree->node[i].self[v];
		++*ret_n;
	}
	qsort(line, *ret_n, sizeof(*line), compare_text);
	*ret_n = merge(line, *ret_n);
	return 0;
}

/* Weights take part in the order of bytes: "a 1" and "a 1b 1" differ first behind the name. */
static int weigh(struct line *line, uint32_t n, uint64_t period, struct kp_err *err)
{
	for (uint32_t i = 0; i < n; i++) {
		char *whole;

		if (asprintf(&whole, "%s %" PRIu64, line[i].text,
			     in_periods(line[i].weight, period)) < 0)
			return kp_fail_nomem(err);
		free(line[i].text);
		line[i].text = whole;
	}
	qsort(line, n, sizeof(*line), compare_text);
	return 0;
}

static int put_picture(const struct picture *c, FILE *out, struct kp_err *err)
{
	struct line *line = calloc(c->tree->count, sizeof(*line));
	uint32_t n = 0;
	int r;

	if (!line)
		return kp_fail_nomem(err);
	r = make_lines(c, line, &n, err);
	if (r == 0)
		r = weigh(line, n, base_period(c->p), err);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		fprintf(out, "%s\n", line[i].text);
	free_lines(line, n);
	return r;
}

static int render(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		  struct kp_err *err)
{
	struct kp_parts parts;
	struct kp_tree tree;
	struct picture c = { p, &tree, &parts, options->split };
	int r = kp_parts_build(p, options->split, &parts, err);

	if (r < 0)
		return r;
	r = kp_tree_build(p, &parts, &tree, err);
	if (r == 0) {
		r = put_picture(&c, out, err);
		kp_tree_deinit(&tree);
	}
	kp_parts_deinit(&parts);
	if (r == 0 && ferror(out))
		return kp_fail_errno(err, "cannot write");
	return r;
}

const struct kp_renderer kp_render_folded = {
	.name = "folded",
	.extension = ".folded",
	.summary = "folded stacks, one line each, for flame graphs",
	.render = render,
};
