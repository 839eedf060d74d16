/* What JIT compilers say of their code: compiled.h. Daemon, session loop. */
#include "daemon/watch/compiled.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/watch/jitdump.h"
#include "daemon/watch/perf_map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kp_compiled_init(struct kp_compiled *compiled, pid_t pid, pid_t ns_pid)
{
	*compiled = (struct kp_compiled){ .pid = pid, .ns_pid = ns_pid };
}

void kp_compiled_deinit(struct kp_compiled *compiled)
{
	if (compiled->map)
		fclose(compiled->map);
	if (compiled->dump)
		fclose(compiled->dump);
	free(compiled->place);
	*compiled = (struct kp_compiled){ 0 };
}

/* ---- places ---- */

static uint64_t *probe(uint64_t *place, uint32_t room, uint64_t address)
{
	uint32_t i = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);

	while (place[i] && place[i] != address)
		i = (i + 1) & (room - 1);
	return &place[i];
}

static int grow(struct kp_compiled *compiled, struct kp_err *err)
{
	uint32_t room = compiled->room ? compiled->room * 2 : 256;
	uint64_t *place = calloc(room, sizeof(*place));

	if (!place)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < compiled->room; i++)
		if (compiled->place[i])
			*probe(place, room, compiled->place[i]) = compiled->place[i];
	free(compiled->place);
	compiled->place = place;
	compiled->room = room;
	return 0;
}

static void open_map(struct kp_compiled *compiled)
{
	if (!compiled->map)
		compiled->map = kp_perf_map_open(compiled->pid, compiled->ns_pid);
}

int kp_compiled_note(struct kp_compiled *compiled, uint64_t address, struct kp_err *err)
{
	uint64_t *place;
	int r;

	if (!address || compiled->count >= KP_COMPILED_PLACES_MAX)
		return 0;
	if (compiled->count >= compiled->room / 2) {
		r = grow(compiled, err);
		if (r < 0)
			return r;
	}
	if (compiled->count == 0)
		open_map(compiled); /* it may be gone when it is read */
	place = probe(compiled->place, compiled->room, address);
	compiled->count += !*place;
	*place = address;
	return 0;
}

/* ---- names ---- */

/* What holds for a place; of several the last one. */
struct entry {
	uint64_t number; /* in the order of reading, from 1; 0: none */
	uint64_t start, end;
	char *name;
};

struct found {
	uint64_t *place; /* ascending */
	struct entry *entry; /* of each */
	uint32_t count;
	uint64_t number; /* of what was read last */
};

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_number(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static void found_deinit(struct found *found)
{
	for (uint32_t i = 0; found->entry && i < found->count; i++)
		free(found->entry[i].name);
	free(found->entry);
	free(found->place);
}

static int found_init(struct found *found, const struct kp_compiled *compiled, struct kp_err *err)
{
	uint32_t n = 0;

	found->place = calloc(compiled->count, sizeof(*found->place));
	found->entry = calloc(compiled->count, sizeof(*found->entry));
	if (!found->place || !found->entry)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < compiled->room; i++)
		if (compiled->place[i])
			found->place[n++] = compiled->place[i];
	found->count = n;
	qsort(found->place, n, sizeof(*found->place), ascending);
	return 0;
}

static uint32_t first_not_below(const struct found *found, uint64_t address)
{
	uint32_t low = 0, high = found->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (found->place[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A kp_compiled_fn; what comes later holds. */
static int take(void *ctx, uint64_t start, uint64_t end, const char *name, struct kp_err *err)
{
	struct found *found = ctx;

	found->number++;
	for (uint32_t i = first_not_below(found, start); i < found->count && found->place[i] < end;
	     i++) {
		char *copy = strdup(name);

		if (!copy)
			return kp_fail_nomem(err);
		free(found->entry[i].name);
		found->entry[i] = (struct entry){ found->number, start, end, copy };
	}
	return 0;
}

static int put_entries(const struct kp_compiled *compiled, struct found *found,
		       struct kp_raw_writer *writer, struct kp_err *err)
{
	uint64_t last = 0;
	int r = 0;

	qsort(found->entry, found->count, sizeof(*found->entry), by_number);
	for (uint32_t i = 0; i < found->count && r == 0; i++) {
		const struct entry *entry = &found->entry[i];
		struct kp_raw_symbol symbol = { .pid = (uint32_t)compiled->pid,
						.start = entry->start,
						.end = entry->end,
						.name = kp_raw_string(entry->name) };

		if (entry->number != last)
			r = kp_raw_put_symbol(writer, &symbol, err);
		last = entry->number;
	}
	return r;
}

void kp_compiled_take_dump(struct kp_compiled *compiled, int fd)
{
	FILE *dump;

	fd = kp_descriptor_take(fd, KP_DESCRIPTOR_CLOCK);
	dump = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!dump) {
		kp_closep(&fd);
		return;
	}
	if (compiled->dump)
		fclose(compiled->dump);
	compiled->dump = dump;
}

int kp_compiled_put(struct kp_compiled *compiled, struct kp_raw_writer *writer, struct kp_err *err)
{
	_cleanup_(found_deinit) struct found found = { 0 };
	int r;

	if (compiled->count == 0)
		return 0;
	open_map(compiled);
	if (!compiled->map && !compiled->dump)
		return 0;
	r = found_init(&found, compiled, err);
	if (r == 0 && compiled->map)
		r = kp_perf_map_read(compiled->map, take, &found, err);
	if (r == 0 && compiled->dump)
		r = kp_jitdump_read(compiled->dump, take, &found, err);
	return r < 0 ? r : put_entries(compiled, &found, writer, err);
}
