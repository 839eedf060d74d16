/* Which modules the handlers know unwind tables of: agent_tables.h. Daemon, session loop. */
#include "daemon/session/agent_tables.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/session/attachment.h"

#include <stdlib.h>
#include <string.h>

void kp_agent_tables_deinit(struct kp_agent_tables *tables)
{
	free(tables->module);
	free(tables->published);
	free(tables->placed);
	*tables = (struct kp_agent_tables){ 0 };
}

/* ---- which modules there are ---- */

/* By place first; what is the same is side by side. */
static int by_place(const void *a, const void *b)
{
	const struct kp_known_module *x = a, *y = b;
	const uint64_t keys[][2] = { { x->start, y->start },
				     { x->end, y->end },
				     { x->offset, y->offset },
				     { x->inode, y->inode },
				     { x->dev, y->dev } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

/* Most children have what their parent has. */
static bool has_the_same(const struct kp_modules *modules, const struct kp_modules *first)
{
	if (modules == first || modules->count != first->count)
		return false;
	for (size_t i = 0; i < modules->count; i++)
		if (by_place(&modules->module[i], &first->module[i]) != 0)
			return false;
	return true;
}

/* Those of all processes in order, each once. */
static int collect(const struct kp_agent_memory *memory, struct kp_known_module **ret,
		   size_t *ret_count, struct kp_err *err)
{
	struct kp_known_module *module;
	size_t most = 0, count = 0, kept = 0;

	for (size_t i = 0; i < memory->user_count; i++)
		most += memory->user[i]->modules.count;
	module = calloc(most + 1, sizeof(*module));
	if (!module)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < memory->user_count; i++) {
		const struct kp_modules *modules = &memory->user[i]->modules;

		if (modules->count && !has_the_same(modules, &memory->user[0]->modules)) {
			memcpy(module + count, modules->module, modules->count * sizeof(*module));
			count += modules->count;
		}
	}
	qsort(module, count, sizeof(*module), by_place);
	for (size_t i = 0; i < count; i++)
		if (!kept || by_place(&module[kept - 1], &module[i]) != 0)
			module[kept++] = module[i];
	*ret = module;
	*ret_count = kept;
	return 0;
}

/*
 * Takes the mark of all that overlap. Those before the i-th that reach beyond its start are marked
 * as such already, all but the one that reaches farthest.
 */
static void part_ways(struct kp_known_module *module, size_t count)
{
	size_t farthest = 0;

	for (size_t i = 1; i < count; i++) {
		if (module[i].start < module[farthest].end)
			module[i].mark = module[farthest].mark = NULL;
		if (module[i].end > module[farthest].end)
			farthest = i;
	}
}

/* How many of now were not there before; both in order. */
static uint32_t count_new(const void *now, size_t now_count, const void *before,
			  size_t before_count, size_t size,
			  int (*compare)(const void *, const void *))
{
	uint32_t found = 0;
	size_t b = 0;

	for (size_t i = 0; i < now_count; i++) {
		const void *wanted = (const uint8_t *)now + i * size;
		int r = -1;

		while (b < before_count &&
		       (r = compare((const uint8_t *)before + b * size, wanted)) < 0)
			b++;
		found += b == before_count || r != 0;
	}
	return found;
}

/* ---- tables in the area ---- */

static int make_place(struct kp_agent_tables *tables, size_t number)
{
	size_t count = number + 64;
	uint64_t *grown;

	if (number < tables->placed_count)
		return 0;
	grown = reallocarray(tables->placed, count, sizeof(*grown));
	if (!grown)
		return -1;
	memset(grown + tables->placed_count, 0, (count - tables->placed_count) * sizeof(*grown));
	tables->placed = grown;
	tables->placed_count = count;
	return 0;
}

/*
 * Offset of the table in the area: where all that share it have it, or where it is put in an area of
 * the target's own, if it is not there yet. 0: there is no room.
 */
static uint64_t place(struct kp_agent_tables *tables, const struct kp_shm_map *map,
		      const struct kp_stored *stored)
{
	uint64_t room = map->shape.tables_bytes - tables->used;

	if (map->shape.tables_shared)
		return stored->off + stored->bytes <= map->shape.tables_bytes ? stored->off : 0;
	if (make_place(tables, stored->number) < 0)
		return 0;
	if (tables->placed[stored->number])
		return tables->placed[stored->number];
	if (stored->bytes > room ||
	    kp_write_at(map->fd, stored->data, stored->bytes, map->tables_off + tables->used) < 0)
		return 0;
	tables->placed[stored->number] = tables->used;
	tables->used += (stored->bytes + 7) & ~UINT64_C(7);
	return tables->placed[stored->number];
}

/* ---- the directory ---- */

static const struct kp_stored *ready(const struct kp_known_module *module)
{
	const struct kp_stored *stored = module->mark;

	return stored && stored->state == KP_STORED_READY ? stored : NULL;
}

static bool describe(struct kp_agent_tables *tables, const struct kp_shm_map *map,
		     const struct kp_known_module *module, struct kp_tables_module *ret)
{
	const struct kp_stored *stored = ready(module);

	*ret = (struct kp_tables_module){ .start = module->start, .end = module->end };
	if (!stored || !kp_segments_address(&stored->segments, module->offset, &ret->address))
		return false;
	ret->table_bytes = stored->bytes;
	ret->table_off = place(tables, map, stored);
	tables->left_out += ret->table_off == 0;
	return ret->table_off;
}

static int by_bytes(const void *a, const void *b)
{
	const struct kp_tables_module *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return memcmp(x, y, sizeof(*x));
}

static int publish(struct kp_agent_memory *memory, struct kp_err *err)
{
	struct kp_agent_tables *tables = &memory->tables;
	struct kp_tables_module *now = calloc(tables->count + 1, sizeof(*now));
	size_t count = 0;

	if (!now)
		return kp_fail_nomem(err);
	if (!tables->used)
		tables->used = KP_TABLES_DIRECTORY_BYTES;
	tables->left_out = 0;
	for (size_t i = 0; i < tables->count; i++)
		count += describe(tables, &memory->map, &tables->module[i], &now[count]);
	if (count > KP_TABLES_MODULES_MAX) {
		tables->left_out += (uint32_t)(count - KP_TABLES_MODULES_MAX);
		count = KP_TABLES_MODULES_MAX;
	}
	if (count != tables->published_count ||
	    (count && memcmp(now, tables->published, count * sizeof(*now)) != 0))
		kp_tables_publish(memory->map.directory, now, count);
	tables->modules_with_table += count_new(now, count, tables->published,
						tables->published_count, sizeof(*now), by_bytes);
	free(tables->published);
	tables->published = now;
	tables->published_count = count;
	return 0;
}

static bool is_stale(struct kp_agent_memory *memory, const struct kp_store *store)
{
	struct kp_agent_tables *tables = &memory->tables;
	bool stale = tables->users_changed || (store && kp_store_changes(store) != tables->changes);

	tables->users_changed = false;
	tables->changes = store ? kp_store_changes(store) : 0;
	for (size_t i = 0; i < memory->user_count; i++) {
		stale |= memory->user[i]->modules.changed;
		memory->user[i]->modules.changed = false;
	}
	return stale;
}

int kp_agent_tables_update(struct kp_agent_memory *memory, const struct kp_store *store,
			   struct kp_err *err)
{
	struct kp_agent_tables *tables = &memory->tables;
	struct kp_known_module *module = NULL;
	size_t count = 0;
	int r;

	if (!is_stale(memory, store))
		return 0;
	r = collect(memory, &module, &count, err);
	if (r < 0)
		return r;
	part_ways(module, count);
	tables->modules +=
		count_new(module, count, tables->module, tables->count, sizeof(*module), by_place);
	free(tables->module);
	tables->module = module;
	tables->count = count;
	return store && memory->map.directory ? publish(memory, err) : 0;
}

/* ---- the store ---- */

const void *kp_agent_tables_found(void *ctx, const struct kp_module_found *found)
{
	if (!ctx)
		return NULL;
	if (found->fd >= 0)
		return kp_store_file(ctx, found->fd, found->name, found->build_id,
				     found->build_id_len);
	return kp_store_image(ctx, found->image, found->image_bytes, found->name);
}

int kp_agent_tables_find_in(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	const struct kp_known_module *module = kp_modules_find(ctx, pc);
	const struct kp_stored *stored = module ? ready(module) : NULL;
	uint64_t address;

	if (!stored || !kp_segments_address(&stored->segments, module->offset, &address))
		return -1;
	return kp_table_find(&stored->table, address + (pc - module->start), ret);
}

int kp_agent_tables_find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	struct kp_attachment *a = ctx;

	/* One that was just forked has not been looked at yet: it has what its parent has. */
	return kp_agent_tables_find_in(
		a->modules.count ? &a->modules : &a->memory->user[0]->modules, pc, ret);
}
