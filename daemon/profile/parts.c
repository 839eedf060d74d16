/*
 * Divides the samples of a profile. Memory and time grow with labels and samples, not with their
 * product: a server may start a thread for each request. Runs in the daemon.
 */
#include "daemon/profile/parts.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"
#include "daemon/profile/index.h"

#include <stdlib.h>
#include <string.h>

struct builder {
	const struct kp_profile *p;
	enum kp_split split;
	struct kp_parts parts;
	uint32_t capacity;
	struct kp_index index;
	int64_t *label_total; /* of the default value */
};

/* ---- which part ---- */

/* What labels of one part have in common; the rest is zero. */
static struct kp_label common_of(const struct builder *b, uint32_t label)
{
	const struct kp_label *l = &b->p->labels[label];
	struct kp_label common = { .comm = l->comm };

	if (b->split != KP_SPLIT_NONE)
		common.pid = l->pid;
	if (b->split == KP_SPLIT_THREAD)
		common.tid = l->tid;
	return common;
}

static bool same_part(const void *ctx, uint32_t id, const void *key)
{
	const struct builder *b = ctx;
	const struct kp_label *k = key;
	struct kp_label common = common_of(b, b->parts.part[id].label);

	return common.pid == k->pid && common.tid == k->tid && common.comm == k->comm;
}

static int find_part(struct builder *b, uint32_t label, uint32_t *ret, struct kp_err *err)
{
	struct kp_label key = common_of(b, label);
	uint64_t hash = kp_hash_word((uint64_t)key.pid << 32 | key.tid, key.comm);
	int r;

	*ret = kp_index_find(&b->index, hash, same_part, b, &key);
	if (*ret != KP_INDEX_NONE)
		return 0;
	r = kp_array_reserve(b->parts.part, &b->capacity, b->parts.count + UINT64_C(1), err);
	if (r < 0)
		return r;
	r = kp_index_add(&b->index, hash, b->parts.count, err);
	if (r < 0)
		return r;
	*ret = b->parts.count++;
	b->parts.part[*ret] = (struct kp_part){ .label = label };
	return 0;
}

static int add_sample(struct builder *b, const struct kp_sample *s, struct kp_err *err)
{
	uint32_t *at = &b->parts.of_label[s->label];
	int64_t *label_total = &b->label_total[s->label];
	struct kp_part *part;
	int r;

	if (*at == KP_INDEX_NONE) {
		r = find_part(b, s->label, at, err);
		if (r < 0)
			return r;
	}
	part = &b->parts.part[*at];
	part->count++;
	for (uint32_t i = 0; i < b->p->value_count; i++)
		part->total[i] = kp_value_sum(part->total[i], s->value[i]);
	*label_total = kp_value_sum(*label_total, s->value[b->p->default_value]);
	return 0;
}

/*
 * A thread begins under the name of the one that made it and gets its own a moment later, so its
 * samples may have several. The one with the most stands for all; of equals the first.
 */
static void choose_labels(struct builder *b)
{
	for (uint32_t i = 0; i < b->p->label_count; i++) {
		struct kp_part *part;

		if (b->parts.of_label[i] == KP_INDEX_NONE)
			continue;
		part = &b->parts.part[b->parts.of_label[i]];
		if (b->label_total[i] > b->label_total[part->label])
			part->label = i;
	}
}

/* ---- in which order ---- */

static int compare_parts(const void *left, const void *right, void *ctx)
{
	const struct kp_part *a = left, *b = right;
	const struct kp_profile *p = ctx;
	const struct kp_label *l = &p->labels[a->label], *m = &p->labels[b->label];
	uint32_t v = p->default_value;

	if (a->total[v] != b->total[v])
		return a->total[v] > b->total[v] ? -1 : 1;
	if (l->pid != m->pid)
		return l->pid < m->pid ? -1 : 1;
	if (l->tid != m->tid)
		return l->tid < m->tid ? -1 : 1;
	return strcmp(p->strings[l->comm], p->strings[m->comm]);
}

/* Sorts the parts. While that lasts, first holds the number that a part had before. */
static int sort(struct builder *b, struct kp_err *err)
{
	struct kp_parts *parts = &b->parts;
	_cleanup_(kp_freep) uint32_t *now = calloc(parts->count + 1u, sizeof(*now));

	if (!now)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < parts->count; i++)
		parts->part[i].first = i;
	if (parts->count)
		qsort_r(parts->part, parts->count, sizeof(*parts->part), compare_parts,
			(void *)(uintptr_t)b->p);
	for (uint32_t i = 0; i < parts->count; i++)
		now[parts->part[i].first] = i;
	for (uint32_t i = 0; i < b->p->label_count; i++) {
		if (parts->of_label[i] != KP_INDEX_NONE)
			parts->of_label[i] = now[parts->of_label[i]];
	}
	return 0;
}

/* Part by part, each in the order of the profile. */
static void list_samples(struct builder *b)
{
	struct kp_parts *parts = &b->parts;
	uint32_t first = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		parts->part[i].first = first;
		first += parts->part[i].count;
		parts->part[i].count = 0;
	}
	for (uint32_t i = 0; i < b->p->sample_count; i++) {
		struct kp_part *part = &parts->part[parts->of_label[b->p->samples[i].label]];

		parts->sample[part->first + part->count++] = i;
	}
}

/* ---- the whole ---- */

static int build(struct builder *b, struct kp_err *err)
{
	const struct kp_profile *p = b->p;
	int r = 0;

	b->parts.of_label = calloc(p->label_count + 1u, sizeof(*b->parts.of_label));
	b->parts.sample = calloc(p->sample_count + 1u, sizeof(*b->parts.sample));
	b->label_total = calloc(p->label_count + 1u, sizeof(*b->label_total));
	if (!b->parts.of_label || !b->parts.sample || !b->label_total)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < p->label_count; i++)
		b->parts.of_label[i] = KP_INDEX_NONE;
	for (uint32_t i = 0; i < p->sample_count && r == 0; i++)
		r = add_sample(b, &p->samples[i], err);
	if (r < 0)
		return r;
	choose_labels(b);
	r = sort(b, err);
	if (r == 0)
		list_samples(b);
	return r;
}

int kp_parts_build(const struct kp_profile *p, enum kp_split split, struct kp_parts *ret,
		   struct kp_err *err)
{
	struct builder b = { .p = p, .split = split };
	int r = build(&b, err);

	kp_index_deinit(&b.index);
	free(b.label_total);
	if (r < 0)
		kp_parts_deinit(&b.parts);
	else
		*ret = b.parts;
	return r;
}

void kp_parts_deinit(struct kp_parts *parts)
{
	free(parts->part);
	free(parts->sample);
	free(parts->of_label);
	*parts = (struct kp_parts){ 0 };
}
