/* The executable mappings of a target: modules.h. Daemon, session loop. */
#include "daemon/watch/modules.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/proc.h"
#include "daemon/watch/memory_elf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define BUILD_ID_MAX 64
#define IMAGE_MAX (1u << 20) /* bytes of a vdso */

void kp_modules_init(struct kp_modules *modules, pid_t pid, struct kp_raw_writer *writer,
		     struct kp_pins *pins)
{
	*modules = (struct kp_modules){ .pid = pid, .writer = writer, .pins = pins };
}

void kp_modules_deinit(struct kp_modules *modules)
{
	free(modules->module);
	*modules = (struct kp_modules){ 0 };
}

static struct kp_known_module as_known(const struct kp_map *map)
{
	return (struct kp_known_module){
		.start = map->start,
		.end = map->end,
		.offset = map->offset,
		.inode = map->inode,
		.dev = map->dev,
		.anon = !map->inode && map->path[0] != '[',
	};
}

static bool is_same(const struct kp_known_module *a, const struct kp_known_module *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev == b->dev;
}

/* Copies the mark of one that is known. */
static bool is_known(const struct kp_modules *modules, struct kp_known_module *wanted)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (!is_same(&modules->module[i], wanted))
			continue;
		wanted->mark = modules->module[i].mark;
		return true;
	}
	return false;
}

const struct kp_known_module *kp_modules_find(const struct kp_modules *modules, uint64_t pc)
{
	size_t low = 0, high = modules->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (pc >= modules->module[mid].end)
			low = mid + 1;
		else
			high = mid;
	}
	return low < modules->count && pc >= modules->module[low].start ? &modules->module[low]
									: NULL;
}

bool kp_modules_contain(const struct kp_modules *modules, uint64_t pc)
{
	return kp_modules_find(modules, pc);
}

/* What the reports call it: the kernel's " (deleted)" is not part of the name. */
static struct kp_raw_string module_path(const struct kp_map *map)
{
	static const char deleted[] = " (deleted)";
	struct kp_raw_string path = kp_raw_string(map->path[0] ? map->path : "//anon");
	size_t tail = sizeof(deleted) - 1;

	if (map->inode && path.len > tail &&
	    memcmp(path.text + path.len - tail, deleted, tail) == 0)
		path.len -= (uint32_t)tail;
	return path;
}

static int put_module(struct kp_modules *modules, const struct kp_map *map, const uint8_t *build_id,
		      size_t build_id_len, struct kp_err *err)
{
	struct kp_raw_module record = {
		.pid = (uint32_t)modules->pid,
		.start = map->start,
		.end = map->end,
		.file_offset = map->offset,
		.path = module_path(map),
		.build_id = { (const char *)build_id, (uint32_t)build_id_len },
	};

	return kp_raw_put_module(modules->writer, &record, err);
}

static const void *tell(const struct kp_modules *modules, const struct kp_module_found *found)
{
	return modules->found ? modules->found(modules->found_ctx, found) : NULL;
}

/* A file that cannot be opened: what of it is in the target's memory goes into the profile. */
static int add_mapped(struct kp_modules *modules, const struct kp_map *map, struct kp_err *err)
{
	struct kp_raw_image record = { .path = module_path(map) };
	_cleanup_(kp_freep) void *image = NULL;
	uint8_t build_id[BUILD_ID_MAX];
	size_t size = 0, len = 0;
	int r = KP_MEMORY_ELF_NONE;

	if (modules->maps)
		r = kp_memory_elf_read(modules->live, modules->maps, map, &image, &size, err);
	if (r < 0)
		return r;
	if (image)
		len = kp_build_id_of_image(image, size, build_id, sizeof(build_id));
	r = put_module(modules, map, build_id, len, err);
	if (r < 0 || !image ||
	    !kp_pins_grant_image(modules->pins, record.path.text, record.path.len, build_id, len,
				 size))
		return r;
	record.bytes = (struct kp_raw_string){ image, (uint32_t)size };
	return kp_raw_put_image(modules->writer, &record, err);
}

static int add_file(struct kp_modules *modules, const struct kp_map *map, const void **ret_mark,
		    struct kp_err *err)
{
	struct kp_raw_string path = module_path(map);
	int fd = kp_map_open_file(modules->live, map), r;
	uint8_t build_id[BUILD_ID_MAX];
	size_t len;

	if (fd < 0)
		return add_mapped(modules, map, err);
	len = kp_build_id_read(fd, build_id, sizeof(build_id));
	r = put_module(modules, map, build_id, len, err);
	*ret_mark = tell(modules, &(struct kp_module_found){ .name = map->path,
							     .fd = fd,
							     .build_id = build_id,
							     .build_id_len = len });
	if (r < 0) {
		close(fd);
		return r;
	}
	/* Where there are too few descriptors, it is found by its name later. */
	fd = kp_descriptor_take(fd, KP_DESCRIPTOR_CLOCK);
	return fd < 0 ? 0
		      : kp_pins_take(modules->pins, path.text, path.len, build_id, len, fd, err);
}

/* The vdso is no file: its image goes into the profile. */
static int add_image(struct kp_modules *modules, const struct kp_map *map, const void **ret_mark,
		     struct kp_err *err)
{
	size_t size = map->end - map->start, len;
	_cleanup_(kp_freep) void *image = size <= IMAGE_MAX ? malloc(size) : NULL;
	struct iovec local = { image, size };
	struct iovec remote = { (void *)(uintptr_t)map->start, size };
	struct kp_raw_image record = { .path = module_path(map) };
	uint8_t build_id[BUILD_ID_MAX];
	int r;

	if (!image || process_vm_readv(modules->live, &local, 1, &remote, 1, 0) != (ssize_t)size)
		return put_module(modules, map, NULL, 0, err);
	len = kp_build_id_of_image(image, size, build_id, sizeof(build_id));
	*ret_mark = tell(modules, &(struct kp_module_found){ .name = map->path,
							     .fd = -1,
							     .image = image,
							     .image_bytes = size,
							     .build_id = build_id,
							     .build_id_len = len });
	record.bytes = (struct kp_raw_string){ image, (uint32_t)size };
	r = put_module(modules, map, build_id, len, err);
	return r < 0 || modules->told ? r : kp_raw_put_image(modules->writer, &record, err);
}

static int add(struct kp_modules *modules, const struct kp_map *map, const void **ret_mark,
	       struct kp_err *err)
{
	if (strcmp(map->path, "[vdso]") == 0)
		return add_image(modules, map, ret_mark, err);
	if (map->inode && map->path[0] == '/')
		return add_file(modules, map, ret_mark, err);
	return put_module(modules, map, NULL, 0, err);
}

static bool is_ours(const struct kp_modules *modules, const struct kp_map *map)
{
	return map->start >= modules->skip_base && map->end <= modules->skip_end;
}

static int add_of_scan(struct kp_modules *modules, const struct kp_maps *maps,
		       const struct kp_map *map, const void **ret_mark, struct kp_err *err)
{
	int r;

	modules->maps = maps;
	r = add(modules, map, ret_mark, err);
	modules->maps = NULL;
	return r;
}

int kp_modules_scan(struct kp_modules *modules, size_t *ret_new, struct kp_err *err)
{
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	_cleanup_(kp_freep) struct kp_known_module *now = NULL;
	size_t count = 0, added = 0;

	if (ret_new)
		*ret_new = 0;
	modules->live = kp_proc_live_thread(modules->pid);
	if (kp_maps_init(&maps, modules->pid, 0, NULL) < 0)
		return 0;
	now = calloc(maps.count + 1, sizeof(*now));
	if (!now)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < maps.count; i++) {
		const struct kp_map *map = &maps.map[i];
		int r;

		if (!map->exec || is_ours(modules, map))
			continue;
		now[count] = as_known(map);
		modules->has_anon |= now[count].anon;
		if (is_known(modules, &now[count++]))
			continue;
		added++;
		r = add_of_scan(modules, &maps, map, &now[count - 1].mark, err);
		if (r < 0)
			return r;
	}
	modules->changed |= added || count != modules->count;
	free(modules->module);
	modules->module = kp_take(now);
	modules->count = count;
	if (ret_new)
		*ret_new = added;
	return 0;
}

/* Ascending, without what the new one covers a part of. */
static int insert(struct kp_modules *modules, const struct kp_known_module *added,
		  struct kp_err *err)
{
	struct kp_known_module *now = calloc(modules->count + 1, sizeof(*now));
	size_t count = 0;
	bool placed = false;

	if (!now)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < modules->count; i++) {
		const struct kp_known_module *known = &modules->module[i];

		if (known->start < added->end && added->start < known->end)
			continue;
		if (!placed && known->start > added->start) {
			now[count++] = *added;
			placed = true;
		}
		now[count++] = *known;
	}
	if (!placed)
		now[count++] = *added;
	free(modules->module);
	modules->module = now;
	modules->count = count;
	modules->changed = true;
	return 0;
}

int kp_modules_add(struct kp_modules *modules, const struct kp_map *map, struct kp_err *err)
{
	struct kp_known_module added = as_known(map);
	int r;

	modules->live = modules->pid;
	modules->told = true;
	if (is_known(modules, &added))
		return 0;
	r = add(modules, map, &added.mark, err);
	return r < 0 ? r : insert(modules, &added, err);
}
