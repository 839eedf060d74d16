/*
 * Computes the flat view. Runs in the daemon.
 */
#include "daemon/profile/flat.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

static void add(const struct kp_profile *p, int64_t *sum, const int64_t *value)
{
	for (uint32_t i = 0; i < p->value_count; i++)
		sum[i] = kp_value_sum(sum[i], value[i]);
}

/*
 * Walks from the leaf to the root. A function that is in the stack several times, by recursion or
 * inlining, counts once: seen holds the number of the last sample that it was counted for.
 */
static void add_sample(const struct kp_profile *p, struct kp_flat *flat, uint32_t *seen,
		       uint32_t number)
{
	const struct kp_sample *s = &p->samples[number - 1];
	bool leaf = true;

	add(p, flat->total, s->value);
	for (uint32_t at = s->stack; at; at = p->stacks[at].parent) {
		const struct kp_location *l = &p->locations[p->stacks[at].location];

		for (uint32_t i = 0; i < l->line_count; i++) {
			uint32_t function = p->lines[l->first_line + i].function;
			struct kp_flat_row *row = &flat->row[function];

			if (leaf)
				add(p, row->self, s->value);
			leaf = false;
			if (!row->mapping)
				row->mapping = l->mapping;
			if (seen[function] == number)
				continue;
			seen[function] = number;
			add(p, row->cumulative, s->value);
		}
	}
}

static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct kp_flat_row *a = left, *b = right;
	const struct kp_profile *p = ctx;
	const struct kp_function *f = &p->functions[a->function], *g = &p->functions[b->function];
	uint32_t v = p->default_value;
	int r;

	if (a->self[v] != b->self[v])
		return a->self[v] > b->self[v] ? -1 : 1;
	if (a->cumulative[v] != b->cumulative[v])
		return a->cumulative[v] > b->cumulative[v] ? -1 : 1;
	r = strcmp(p->strings[f->name], p->strings[g->name]);
	if (r == 0)
		r = strcmp(p->strings[f->file], p->strings[g->file]);
	if (r == 0)
		r = a->function < b->function ? -1 : a->function > b->function;
	return r;
}

/* Only functions that samples have; the rows were one for each function till now. */
static void keep_sampled(struct kp_flat *flat, const uint32_t *seen, uint32_t function_count)
{
	for (uint32_t i = 0; i < function_count; i++) {
		if (seen[i])
			flat->row[flat->count++] = flat->row[i];
	}
}

int kp_flat_build(const struct kp_profile *p, struct kp_flat *ret, struct kp_err *err)
{
	_cleanup_(kp_freep) uint32_t *seen = calloc(p->function_count, sizeof(*seen));
	struct kp_flat flat = { .row = calloc(p->function_count, sizeof(*flat.row)) };

	if (!seen || !flat.row) {
		kp_flat_deinit(&flat);
		return kp_fail_nomem(err);
	}
	for (uint32_t i = 0; i < p->function_count; i++)
		flat.row[i].function = i;
	for (uint32_t number = 1; number <= p->sample_count; number++)
		add_sample(p, &flat, seen, number);
	keep_sampled(&flat, seen, p->function_count);
	qsort_r(flat.row, flat.count, sizeof(*flat.row), compare_rows, (void *)(uintptr_t)p);
	*ret = flat;
	return 0;
}

void kp_flat_deinit(struct kp_flat *flat)
{
	free(flat->row);
	*flat = (struct kp_flat){ 0 };
}
