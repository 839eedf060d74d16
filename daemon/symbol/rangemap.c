/* Address -> innermost range: see rangemap.h. Runs in the daemon; knows nothing of ELF. */
#include "daemon/symbol/rangemap.h"

#include "common/cleanup.h"

#include <stdlib.h>

void kp_rangemap_deinit(struct kp_rangemap *map)
{
	free(map->range);
	*map = (struct kp_rangemap){ 0 };
}

int kp_rangemap_add(struct kp_rangemap *map, const struct kp_range *range, struct kp_err *err)
{
	if (range->end <= range->start)
		return 0;
	if (map->count == map->capacity) {
		size_t capacity = map->capacity ? map->capacity * 2 : 256;
		void *grown = reallocarray(map->range, capacity, sizeof(*map->range));

		if (!grown)
			return kp_fail_nomem(err);
		map->range = grown;
		map->capacity = capacity;
	}
	map->range[map->count++] = *range;
	return 0;
}

/* Outer before inner: the order in which a sweep over the addresses opens the ranges. */
static int compare(const void *a, const void *b)
{
	const struct kp_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->value < y->value ? -1 : x->value > y->value;
}

static void sort(struct kp_rangemap *map)
{
	for (size_t i = 1; i < map->count; i++) {
		if (compare(&map->range[i - 1], &map->range[i]) > 0) {
			qsort(map->range, map->count, sizeof(*map->range), compare);
			return;
		}
	}
}

struct sweep {
	const struct kp_range **open; /* outermost first; may hold some that have ended below */
	size_t open_count;
	struct kp_range *out;
	size_t out_count;
	uint64_t at; /* everything below is written */
};

static void emit(struct sweep *s, uint64_t end, uint32_t value)
{
	if (end > s->at)
		s->out[s->out_count++] =
			(struct kp_range){ .start = s->at, .end = end, .value = value };
	if (end > s->at)
		s->at = end;
}

/* Writes what is open out up to the address, and closes what ends there or before. */
static void advance(struct sweep *s, uint64_t to)
{
	while (s->open_count) {
		const struct kp_range *top = s->open[s->open_count - 1];

		if (top->end > to) {
			emit(s, to, top->value);
			break;
		}
		emit(s, top->end, top->value);
		s->open_count--;
	}
	s->at = to;
}

int kp_rangemap_finish(struct kp_rangemap *map, struct kp_err *err)
{
	_cleanup_(kp_freep) const struct kp_range **open = NULL;
	struct sweep s = { 0 };

	if (!map->count)
		return 0;
	sort(map);
	open = calloc(map->count, sizeof(*open));
	/* opening a range ends at most one piece of another, and so does closing it */
	s.out = calloc(map->count, 2 * sizeof(*s.out));
	if (!open || !s.out) {
		free(s.out);
		return kp_fail_nomem(err);
	}
	s.open = open;
	for (size_t i = 0; i < map->count; i++) {
		advance(&s, map->range[i].start);
		open[s.open_count++] = &map->range[i];
	}
	advance(&s, UINT64_MAX);
	free(map->range);
	map->range = s.out;
	map->capacity = map->count * 2;
	map->count = s.out_count;
	return 0;
}

bool kp_rangemap_find(const struct kp_rangemap *map, uint64_t address, uint32_t *ret_value)
{
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (map->range[mid].end <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == map->count || map->range[low].start > address)
		return false;
	*ret_value = map->range[low].value;
	return true;
}
