/*
 * The interning store behind profile.h: one array and one index for each kind of thing. It keeps
 * what it is given and says what it has; it does not read raw profiles, look up names or render.
 * Runs in the daemon, in one thread.
 *
 * Each interner goes the same way: hash the fields (never the padding), look for an equal entry,
 * else make room in the array and in the index and only then write, so that a failure for want of
 * memory leaves the profile as it was.
 */
#include "daemon/profile/profile.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"
#include "daemon/profile/index.h"
#include "daemon/profile/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct table {
	struct kp_index index;
	uint32_t capacity; /* of the array */
};

struct kp_profile_index {
	struct table strings, functions, mappings, locations, stacks, labels, samples;
	uint32_t string_len_capacity;
	uint32_t line_capacity;
};

/* ---- the common way ---- */

/* One kind of thing with a fixed size: where it lives and when two are equal. */
struct kind {
	struct table *table;
	void *array_at; /* address of the pointer to the array */
	uint32_t *count;
	size_t bytes; /* of an element */
	kp_index_same_fn same;
};

/* Finds the element or appends it. */
static int intern(struct kp_profile *p, const struct kind *k, const void *element, uint64_t hash,
		  uint32_t *ret, struct kp_err *err)
{
	struct table *t = k->table;
	void *array;
	int r;

	*ret = kp_index_find(&t->index, hash, k->same, p, element);
	if (*ret != KP_INDEX_NONE)
		return 0;
	memcpy(&array, k->array_at, sizeof(array));
	array = kp_array_grow(array, &t->capacity, *k->count + UINT64_C(1), k->bytes);
	if (!array)
		return kp_fail_nomem(err);
	memcpy(k->array_at, &array, sizeof(array));
	r = kp_index_add(&t->index, hash, *k->count, err);
	if (r < 0)
		return r;
	*ret = (*k->count)++;
	memcpy((char *)array + *ret * k->bytes, element, k->bytes);
	return 0;
}

/* ---- strings ---- */

struct text {
	const char *text;
	size_t len;
};

static bool same_string(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct text *t = key;

	return p->string_len[id] == t->len && memcmp(p->strings[id], t->text, t->len) == 0;
}

static int add_string(struct kp_profile *p, const struct text *t, uint64_t hash, struct kp_err *err)
{
	struct kp_profile_index *x = p->index;
	_cleanup_(kp_freep) char *copy = NULL;
	int r;

	if (t->len >= UINT32_MAX)
		return kp_fail_nomem(err);
	r = kp_array_reserve(p->strings, &x->strings.capacity, p->string_count + UINT64_C(1), err);
	if (r < 0)
		return r;
	r = kp_array_reserve(p->string_len, &x->string_len_capacity, p->string_count + UINT64_C(1),
			     err);
	if (r < 0)
		return r;
	copy = malloc(t->len + 1);
	if (!copy)
		return kp_fail_nomem(err);
	r = kp_index_add(&x->strings.index, hash, p->string_count, err);
	if (r < 0)
		return r;
	memcpy(copy, t->text, t->len);
	copy[t->len] = 0;
	p->string_len[p->string_count] = (uint32_t)t->len;
	p->strings[p->string_count++] = kp_take(copy);
	return 0;
}

static int intern_clean(struct kp_profile *p, const struct text *t, uint32_t *ret,
			struct kp_err *err)
{
	uint64_t hash = kp_hash_bytes(t->text, t->len);
	uint32_t id = kp_index_find(&p->index->strings.index, hash, same_string, p, t);
	int r;

	if (id == KP_INDEX_NONE) {
		id = p->string_count;
		r = add_string(p, t, hash, err);
		if (r < 0)
			return r;
	}
	*ret = id;
	return 0;
}

int kp_profile_string(struct kp_profile *p, const char *text, size_t len, uint32_t *ret,
		      struct kp_err *err)
{
	_cleanup_(kp_freep) char *escaped = NULL;

	if (len == 0)
		return intern_clean(p, &(struct text){ .text = "" }, ret, err);
	if (kp_utf8_is_clean(text, len))
		return intern_clean(p, &(struct text){ text, len }, ret, err);
	if (len > UINT32_MAX / 4 - 1)
		return kp_fail_nomem(err);
	escaped = malloc(4 * len + 1);
	if (!escaped)
		return kp_fail_nomem(err);
	len = kp_utf8_escape(text, len, escaped);
	return intern_clean(p, &(struct text){ escaped, len }, ret, err);
}

/* ---- functions ---- */

static uint64_t hash_function(const struct kp_function *f)
{
	uint64_t hash = kp_hash_word(f->name, f->system_name);

	hash = kp_hash_word(hash, (uint64_t)f->file << 32 | f->start_line);
	hash = kp_hash_word(hash, f->module);
	return kp_hash_word(hash, (uint64_t)f->unnamed << 1 | f->marker);
}

static bool same_function(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_function *a = &p->functions[id], *b = key;

	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line && a->module == b->module &&
	       a->unnamed == b->unnamed && a->marker == b->marker;
}

int kp_profile_function(struct kp_profile *p, const struct kp_function *f, uint32_t *ret,
			struct kp_err *err)
{
	struct kind k = { &p->index->functions, &p->functions, &p->function_count,
			  sizeof(*p->functions), same_function };

	return intern(p, &k, f, hash_function(f), ret, err);
}

/* ---- mappings ---- */

static bool same_mapping(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_mapping *a = &p->mappings[id], *b = key;

	return a->start == b->start && a->end == b->end && a->file_offset == b->file_offset &&
	       a->filename == b->filename && a->build_id == b->build_id;
}

int kp_profile_mapping(struct kp_profile *p, const struct kp_mapping *m, uint32_t *ret,
		       struct kp_err *err)
{
	struct kind k = { &p->index->mappings, &p->mappings, &p->mapping_count,
			  sizeof(*p->mappings), same_mapping };
	uint64_t hash = kp_hash_word(m->start, m->end);

	hash = kp_hash_word(hash, m->file_offset);
	hash = kp_hash_word(hash, (uint64_t)m->filename << 32 | m->build_id);
	return intern(p, &k, m, hash, ret, err);
}

/* ---- locations ---- */

struct location_key {
	uint32_t mapping;
	uint64_t address;
	const struct kp_line *line;
	uint32_t line_count;
};

static bool same_location(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_location *a = &p->locations[id];
	const struct location_key *b = key;

	if (a->mapping != b->mapping || a->address != b->address || a->line_count != b->line_count)
		return false;
	for (uint32_t i = 0; i < a->line_count; i++) {
		const struct kp_line *line = &p->lines[a->first_line + i];

		if (line->function != b->line[i].function || line->line != b->line[i].line)
			return false;
	}
	return true;
}

static uint64_t hash_location(const struct location_key *k)
{
	uint64_t hash = kp_hash_word(k->mapping, k->address);

	for (uint32_t i = 0; i < k->line_count; i++)
		hash = kp_hash_word(hash, (uint64_t)k->line[i].function << 32 | k->line[i].line);
	return hash;
}

static int add_location(struct kp_profile *p, const struct location_key *k, uint64_t hash,
			struct kp_err *err)
{
	struct table *t = &p->index->locations;
	int r;

	r = kp_array_reserve(p->lines, &p->index->line_capacity,
			     (uint64_t)p->line_count + k->line_count, err);
	if (r < 0)
		return r;
	r = kp_array_reserve(p->locations, &t->capacity, p->location_count + UINT64_C(1), err);
	if (r < 0)
		return r;
	r = kp_index_add(&t->index, hash, p->location_count, err);
	if (r < 0)
		return r;
	p->locations[p->location_count++] = (struct kp_location){
		.mapping = k->mapping,
		.address = k->address,
		.first_line = p->line_count,
		.line_count = k->line_count,
	};
	memcpy(&p->lines[p->line_count], k->line, k->line_count * sizeof(*k->line));
	p->line_count += k->line_count;
	return 0;
}

int kp_profile_location(struct kp_profile *p, uint32_t mapping, uint64_t address,
			const struct kp_line *line, uint32_t line_count, uint32_t *ret,
			struct kp_err *err)
{
	struct location_key k = { mapping, address, line, line_count };
	uint64_t hash = hash_location(&k);
	uint32_t id = kp_index_find(&p->index->locations.index, hash, same_location, p, &k);
	int r;

	assert(mapping < p->mapping_count && line_count > 0);
	if (id == KP_INDEX_NONE) {
		id = p->location_count;
		r = add_location(p, &k, hash, err);
		if (r < 0)
			return r;
	}
	*ret = id;
	return 0;
}

/* ---- stacks ---- */

static bool same_stack(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_stack *a = &p->stacks[id], *b = key;

	return a->parent == b->parent && a->location == b->location;
}

int kp_profile_stack(struct kp_profile *p, uint32_t parent, uint32_t location, uint32_t *ret,
		     struct kp_err *err)
{
	struct kind k = { &p->index->stacks, &p->stacks, &p->stack_count, sizeof(*p->stacks),
			  same_stack };
	struct kp_stack s = { .parent = parent, .location = location };

	assert(parent < p->stack_count && location > 0 && location < p->location_count);
	s.depth = p->stacks[parent].depth + 1;
	return intern(p, &k, &s, kp_hash_word(parent, location), ret, err);
}

/* ---- labels ---- */

static bool same_label(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_label *a = &p->labels[id], *b = key;

	return a->pid == b->pid && a->tid == b->tid && a->comm == b->comm &&
	       a->thread_name == b->thread_name;
}

int kp_profile_label(struct kp_profile *p, const struct kp_label *l, uint32_t *ret,
		     struct kp_err *err)
{
	struct kind k = { &p->index->labels, &p->labels, &p->label_count, sizeof(*p->labels),
			  same_label };
	uint64_t hash = kp_hash_word((uint64_t)l->pid << 32 | l->tid,
				     (uint64_t)l->comm << 32 | l->thread_name);

	return intern(p, &k, l, hash, ret, err);
}

/* ---- samples ---- */

int kp_profile_value_type(struct kp_profile *p, const char *type, const char *unit,
			  struct kp_err *err)
{
	struct kp_value_type t;
	int r;

	assert(p->value_count < KP_VALUE_MAX && p->sample_count == 0);
	r = kp_profile_string(p, type, strlen(type), &t.type, err);
	if (r < 0)
		return r;
	r = kp_profile_string(p, unit, strlen(unit), &t.unit, err);
	if (r < 0)
		return r;
	p->value_type[p->value_count++] = t;
	return 0;
}

uint32_t kp_profile_value(const struct kp_profile *p, const char *type)
{
	uint32_t i = 0;

	while (i < p->value_count && strcmp(p->strings[p->value_type[i].type], type) != 0)
		i++;
	return i;
}

static bool same_sample(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_profile *p = ctx;
	const struct kp_sample *a = &p->samples[id], *b = key;

	return a->stack == b->stack && a->label == b->label;
}

int kp_profile_add(struct kp_profile *p, uint32_t stack, uint32_t label, const int64_t *value,
		   struct kp_err *err)
{
	struct kind k = { &p->index->samples, &p->samples, &p->sample_count, sizeof(*p->samples),
			  same_sample };
	struct kp_sample s = { .stack = stack, .label = label };
	uint32_t at;
	int r;

	assert(stack > 0 && stack < p->stack_count && label < p->label_count);
	r = intern(p, &k, &s, kp_hash_word(stack, label), &at, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->value_count; i++)
		p->samples[at].value[i] = kp_value_sum(p->samples[at].value[i], value[i]);
	return 0;
}

/* ---- life ---- */

/* Entry 0 of each array stands for "none"; it is in no index but that of the strings. */
static int reserve_nothing(struct kp_profile *p, struct kp_err *err)
{
	struct kp_profile_index *x = p->index;
	uint32_t empty;
	int r;

	r = kp_profile_string(p, "", 0, &empty, err);
	if (r < 0)
		return r;
	if (kp_array_reserve(p->functions, &x->functions.capacity, 1, err) < 0 ||
	    kp_array_reserve(p->mappings, &x->mappings.capacity, 1, err) < 0 ||
	    kp_array_reserve(p->lines, &x->line_capacity, 1, err) < 0 ||
	    kp_array_reserve(p->locations, &x->locations.capacity, 1, err) < 0 ||
	    kp_array_reserve(p->stacks, &x->stacks.capacity, 1, err) < 0 ||
	    kp_array_reserve(p->labels, &x->labels.capacity, 1, err) < 0)
		return -KP_ENOMEM;
	p->functions[p->function_count++] = (struct kp_function){ 0 };
	p->mappings[p->mapping_count++] = (struct kp_mapping){ 0 };
	p->lines[p->line_count++] = (struct kp_line){ 0 };
	p->locations[p->location_count++] = (struct kp_location){ 0 };
	p->stacks[p->stack_count++] = (struct kp_stack){ 0 };
	p->labels[p->label_count++] = (struct kp_label){ 0 };
	return 0;
}

int kp_profile_create(struct kp_profile **ret, struct kp_err *err)
{
	struct kp_profile *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return kp_fail_nomem(err);
	p->index = calloc(1, sizeof(*p->index));
	r = p->index ? reserve_nothing(p, err) : kp_fail_nomem(err);
	if (r < 0) {
		kp_profile_destroy(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void destroy_index(struct kp_profile_index *x)
{
	struct table *tables[] = { &x->strings, &x->functions, &x->mappings, &x->locations,
				   &x->stacks,	&x->labels,    &x->samples };

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		kp_index_deinit(&tables[i]->index);
	free(x);
}

void kp_profile_destroy(struct kp_profile *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->string_count; i++)
		free((void *)(uintptr_t)p->strings[i]); /* ours; const to the readers */
	free(p->strings);
	free(p->string_len);
	free(p->functions);
	free(p->mappings);
	free(p->lines);
	free(p->locations);
	free(p->stacks);
	free(p->labels);
	free(p->samples);
	if (p->index)
		destroy_index(p->index);
	free(p);
}
