/*
 * Builds the call tree by name. Runs in the daemon.
 */
#include "daemon/profile/tree.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"
#include "daemon/profile/index.h"

#include <stdlib.h>

struct builder {
	const struct kp_profile *p;
	const struct kp_parts *parts;
	struct kp_tree_node *node;
	uint32_t count, capacity;
	struct kp_index index;
};

static bool same_node(const void *ctx, uint32_t id, const void *key)
{
	const struct builder *b = ctx;
	const struct kp_tree_node *k = key;

	return b->node[id].parent == k->parent && b->node[id].name == k->name &&
	       b->node[id].part == k->part;
}

/* From *at to its child of that name and part, added if it is new. */
static int descend(struct builder *b, uint32_t *at, uint32_t name, uint32_t part,
		   struct kp_err *err)
{
	struct kp_tree_node key = { .parent = *at, .name = name, .part = part };
	uint64_t hash = kp_hash_word((uint64_t)*at << 32 | part, name);
	int r;

	*at = kp_index_find(&b->index, hash, same_node, b, &key);
	if (*at != KP_INDEX_NONE)
		return 0;
	r = kp_array_reserve(b->node, &b->capacity, b->count + UINT64_C(1), err);
	if (r < 0)
		return r;
	r = kp_index_add(&b->index, hash, b->count, err);
	if (r < 0)
		return r;
	*at = b->count++;
	b->node[*at] = key;
	return 0;
}

/* Down the frames of one location, the out-of-line function first. */
static int descend_location(struct builder *b, uint32_t *at, uint32_t location, struct kp_err *err)
{
	const struct kp_location *l = &b->p->locations[location];

	for (uint32_t i = l->line_count; i-- > 0;) {
		const struct kp_line *line = &b->p->lines[l->first_line + i];
		int r = descend(b, at, b->p->functions[line->function].name, b->node[*at].part,
				err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_sample(struct builder *b, const struct kp_sample *s, struct kp_err *err)
{
	uint32_t n = b->p->stacks[s->stack].depth, at = 0;
	_cleanup_(kp_freep) uint32_t *path = calloc(n + 1u, sizeof(*path)); /* leaf first */
	int r;

	if (!path)
		return kp_fail_nomem(err);
	for (uint32_t i = 0, stack = s->stack; i < n; i++, stack = b->p->stacks[stack].parent)
		path[i] = b->p->stacks[stack].location;
	r = descend(b, &at, b->p->labels[s->label].comm, b->parts->of_label[s->label], err);
	if (r < 0)
		return r;
	while (n > 0) {
		r = descend_location(b, &at, path[--n], err);
		if (r < 0)
			return r;
	}
	for (uint32_t i = 0; i < b->p->value_count; i++)
		b->node[at].self[i] = kp_value_sum(b->node[at].self[i], s->value[i]);
	return 0;
}

static int build(struct builder *b, struct kp_err *err)
{
	int r = kp_array_reserve(b->node, &b->capacity, 1, err);

	if (r < 0)
		return r;
	b->node[b->count++] = (struct kp_tree_node){ 0 };
	for (uint32_t i = 0; i < b->p->sample_count && r == 0; i++)
		r = add_sample(b, &b->p->samples[i], err);
	return r;
}

int kp_tree_build(const struct kp_profile *p, const struct kp_parts *parts, struct kp_tree *ret,
		  struct kp_err *err)
{
	struct builder b = { .p = p, .parts = parts };
	int r = build(&b, err);

	kp_index_deinit(&b.index);
	if (r < 0) {
		free(b.node);
		return r;
	}
	*ret = (struct kp_tree){ .node = b.node, .count = b.count };
	return 0;
}

void kp_tree_deinit(struct kp_tree *tree)
{
	free(tree->node);
	*tree = (struct kp_tree){ 0 };
}
