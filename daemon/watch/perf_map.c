/* What JIT compilers say of their code: perf_map.h. Daemon, session loop. */
#include "daemon/watch/perf_map.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A line that is longer is cut; there are names of some kilobytes. */
#define LINE_MAX_BYTES 16384

void kp_perf_map_init(struct kp_perf_map *map, pid_t pid, pid_t ns_pid)
{
	*map = (struct kp_perf_map){ .pid = pid, .ns_pid = ns_pid };
}

void kp_perf_map_deinit(struct kp_perf_map *map)
{
	if (map->file)
		fclose(map->file);
	free(map->place);
	*map = (struct kp_perf_map){ 0 };
}

/* ---- the file ---- */

/* Anybody may have put it there, so it must be the process's own, or root's. */
static bool is_trusted(const struct kp_perf_map *map, int fd)
{
	struct stat file, process;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)map->pid);
	if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
		return false;
	if (file.st_uid == 0 || file.st_uid == geteuid())
		return true;
	return stat(path, &process) == 0 && file.st_uid == process.st_uid;
}

static FILE *open_at(const struct kp_perf_map *map, const char *root, pid_t pid)
{
	_cleanup_(kp_closep) int fd = -1;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", root, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || !is_trusted(map, fd))
		return NULL;
	fd = kp_descriptor_take(fd, KP_DESCRIPTOR_CLOCK);
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (file)
		kp_take_fd(&fd);
	return file;
}

/* While the process lives, as it sees the file; later, where it was if that is where we are. */
static void open_file(struct kp_perf_map *map)
{
	char root[64];

	if (map->file)
		return;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)map->pid);
	map->file = open_at(map, root, map->ns_pid);
	if (!map->file && access(root, X_OK) != 0)
		map->file = open_at(map, "", map->pid);
}

/* ---- places ---- */

static uint64_t *probe(uint64_t *place, uint32_t room, uint64_t address)
{
	uint32_t i = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);

	while (place[i] && place[i] != address)
		i = (i + 1) & (room - 1);
	return &place[i];
}

static int grow(struct kp_perf_map *map, struct kp_err *err)
{
	uint32_t room = map->room ? map->room * 2 : 256;
	uint64_t *place = calloc(room, sizeof(*place));

	if (!place)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < map->room; i++)
		if (map->place[i])
			*probe(place, room, map->place[i]) = map->place[i];
	free(map->place);
	map->place = place;
	map->room = room;
	return 0;
}

int kp_perf_map_note(struct kp_perf_map *map, uint64_t address, struct kp_err *err)
{
	uint64_t *place;
	int r;

	if (!address || map->count >= KP_PERF_MAP_PLACES_MAX)
		return 0;
	if (map->count >= map->room / 2) {
		r = grow(map, err);
		if (r < 0)
			return r;
	}
	if (map->count == 0)
		open_file(map); /* it may be gone when it is read */
	place = probe(map->place, map->room, address);
	map->count += !*place;
	*place = address;
	return 0;
}

/* ---- names ---- */

/* A line that holds for a place; of several the last one. */
struct entry {
	uint64_t line; /* number, from 1; 0: none */
	uint64_t start, end;
	char *name;
};

struct found {
	uint64_t *place; /* ascending */
	struct entry *entry; /* of each */
	uint32_t count;
};

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_line(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

static void found_deinit(struct found *found)
{
	for (uint32_t i = 0; found->entry && i < found->count; i++)
		free(found->entry[i].name);
	free(found->entry);
	free(found->place);
}

static int found_init(struct found *found, const struct kp_perf_map *map, struct kp_err *err)
{
	uint32_t n = 0;

	found->place = calloc(map->count, sizeof(*found->place));
	found->entry = calloc(map->count, sizeof(*found->entry));
	if (!found->place || !found->entry)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < map->room; i++)
		if (map->place[i])
			found->place[n++] = map->place[i];
	found->count = n;
	qsort(found->place, n, sizeof(*found->place), ascending);
	return 0;
}

/* "START SIZE NAME", the newline taken off; false if it is no such line. */
static bool parse(char *line, uint64_t *ret_start, uint64_t *ret_end, const char **ret_name)
{
	uint64_t size;
	char *at;

	errno = 0;
	*ret_start = strtoull(line, &at, 16);
	if (at == line || *at != ' ')
		return false;
	line = at + 1;
	size = strtoull(line, &at, 16);
	if (at == line || *at != ' ' || errno || !size || size > UINT64_MAX - *ret_start)
		return false;
	*ret_end = *ret_start + size;
	*ret_name = at + 1;
	return (*ret_name)[0];
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

static int take_line(struct found *found, char *line, uint64_t number, struct kp_err *err)
{
	uint64_t start, end;
	const char *name;

	if (!parse(line, &start, &end, &name))
		return 0;
	for (uint32_t i = first_not_below(found, start); i < found->count && found->place[i] < end;
	     i++) {
		char *copy = strdup(name);

		if (!copy)
			return kp_fail_nomem(err);
		free(found->entry[i].name);
		found->entry[i] = (struct entry){ number, start, end, copy };
	}
	return 0;
}

/* The rest of a line that did not fit. */
static void skip_line(FILE *f)
{
	for (int c = getc_unlocked(f); c != EOF && c != '\n'; c = getc_unlocked(f))
		;
}

static int read_file(struct found *found, FILE *f, struct kp_err *err)
{
	_cleanup_(kp_freep) char *line = malloc(LINE_MAX_BYTES);
	uint64_t number = 0;
	int r = 0;

	if (!line)
		return kp_fail_nomem(err);
	while (r == 0 && fgets(line, LINE_MAX_BYTES, f)) {
		size_t len = strcspn(line, "\r\n");

		if (!line[len])
			skip_line(f);
		line[len] = '\0';
		r = take_line(found, line, ++number, err);
	}
	return r;
}

static int put_entries(const struct kp_perf_map *map, struct found *found,
		       struct kp_raw_writer *writer, struct kp_err *err)
{
	uint64_t last = 0;
	int r = 0;

	qsort(found->entry, found->count, sizeof(*found->entry), by_line);
	for (uint32_t i = 0; i < found->count && r == 0; i++) {
		const struct entry *entry = &found->entry[i];
		struct kp_raw_symbol symbol = { .pid = (uint32_t)map->pid,
						.start = entry->start,
						.end = entry->end,
						.name = kp_raw_string(entry->name) };

		if (entry->line != last)
			r = kp_raw_put_symbol(writer, &symbol, err);
		last = entry->line;
	}
	return r;
}

int kp_perf_map_put(struct kp_perf_map *map, struct kp_raw_writer *writer, struct kp_err *err)
{
	_cleanup_(found_deinit) struct found found = { 0 };
	int r;

	if (map->count == 0)
		return 0;
	open_file(map);
	if (!map->file)
		return 0;
	r = found_init(&found, map, err);
	if (r == 0)
		r = read_file(&found, map->file, err);
	return r < 0 ? r : put_entries(map, &found, writer, err);
}
