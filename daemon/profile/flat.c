/*
 * Computes the flat view. Runs in the daemon.
 */
#include "daemon/profile/flat.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"

#include <stdlib.h>
#include <string.h>

struct builder {
	const struct kp_profile *p;
	struct kp_flat flat;
	uint32_t capacity;
	uint32_t *row_of; /* by function: 1 + its row, 0: none yet */
	uint32_t *seen; /* by function: number of the last sample that it was counted for */
};

static void add(const struct kp_profile *p, int64_t *sum, const int64_t *value)
{
	for (uint32_t i = 0; i < p->value_count; i++)
		sum[i] = kp_value_sum(sum[i], value[i]);
}

/* The row of a function, made if it is new. Valid until the next call. */
static int get_row(struct builder *b, uint32_t function, struct kp_flat_row **ret,
		   struct kp_err *err)
{
	struct kp_flat *flat = &b->flat;
	int r;

	if (!b->row_of[function]) {
		r = kp_array_reserve(flat->row, &b->capacity, flat->count + UINT64_C(1), err);
		if (r < 0)
			return r;
		flat->row[flat->count++] = (struct kp_flat_row){ .function = function };
		b->row_of[function] = flat->count;
	}
	*ret = &flat->row[b->row_of[function] - 1];
	return 0;
}

/*
 * Walks from the leaf to the root. A function that is in the stack several times, by recursion or
 * inlining, counts once. number: of the sample among those that are counted, from 1.
 */
static int add_sample(struct builder *b, const struct kp_sample *s, uint32_t number,
		      struct kp_err *err)
{
	const struct kp_profile *p = b->p;
	struct kp_flat_row *row;
	bool leaf = true;
	int r;

	add(p, b->flat.total, s->value);
	for (uint32_t at = s->stack; at; at = p->stacks[at].parent) {
		const struct kp_location *l = &p->locations[p->stacks[at].location];

		for (uint32_t i = 0; i < l->line_count; i++) {
			r = get_row(b, p->lines[l->first_line + i].function, &row, err);
			if (r < 0)
				return r;
			if (leaf)
				add(p, row->self, s->value);
			leaf = false;
			if (!row->mapping)
				row->mapping = l->mapping;
			if (b->seen[row->function] == number)
				continue;
			b->seen[row->function] = number;
			add(p, row->cumulative, s->value);
		}
	}
	return 0;
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

static int build(struct builder *b, const uint32_t *sample, uint32_t n, struct kp_err *err)
{
	int r = 0;

	b->row_of = calloc(b->p->function_count, sizeof(*b->row_of));
	b->seen = calloc(b->p->function_count, sizeof(*b->seen));
	if (!b->row_of || !b->seen)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < n && r == 0; i++)
		r = add_sample(b, &b->p->samples[sample ? sample[i] : i], i + 1, err);
	if (b->flat.count)
		qsort_r(b->flat.row, b->flat.count, sizeof(*b->flat.row), compare_rows,
			(void *)(uintptr_t)b->p);
	return r;
}

int kp_flat_build(const struct kp_profile *p, const uint32_t *sample, uint32_t sample_count,
		  struct kp_flat *ret, struct kp_err *err)
{
	struct builder b = { .p = p };
	int r = build(&b, sample, sample ? sample_count : p->sample_count, err);

	free(b.row_of);
	free(b.seen);
	if (r < 0)
		kp_flat_deinit(&b.flat);
	else
		*ret = b.flat;
	return r;
}

void kp_flat_deinit(struct kp_flat *flat)
{
	free(flat->row);
	*flat = (struct kp_flat){ 0 };
}
