/*
 * /proc/PID/maps and the files behind it. Daemon and its helper; no state.
 */
#include "daemon/linux/maps.h"

#include "common/cleanup.h"
#include "daemon/linux/proc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The kernel writes a newline in a path as \012; nothing else is escaped. In place. */
static void unescape(char *path)
{
	char *out = path;

	for (const char *in = path; *in; in++) {
		if (strncmp(in, "\\012", 4) == 0) {
			*out++ = '\n';
			in += 3;
		} else {
			*out++ = *in;
		}
	}
	*out = 0;
}

/* One line, NUL-terminated. Its path is kept as a pointer into it. */
static bool parse_line(char *line, struct kp_map *ret)
{
	unsigned major_nr, minor_nr;
	char perms[5];
	int path_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &ret->start, &ret->end, perms, &ret->offset, &major_nr, &minor_nr, &ret->inode,
		   &path_at) < 7)
		return false;
	if (ret->end <= ret->start)
		return false;
	ret->dev = makedev(major_nr, minor_nr);
	ret->read = perms[0] == 'r';
	ret->write = perms[1] == 'w';
	ret->exec = perms[2] == 'x';
	ret->shared = perms[3] == 's';
	unescape(line + path_at);
	ret->path = line + path_at;
	return true;
}

static int parse_text(struct kp_maps *maps, struct kp_err *err)
{
	size_t lines = 1;

	for (const char *p = maps->text; *p; p++)
		lines += *p == '\n';
	maps->map = calloc(lines, sizeof(*maps->map));
	if (!maps->map)
		return kp_fail_nomem(err);
	for (char *line = maps->text, *next; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		line[len] = 0;
		if (parse_line(line, &maps->map[maps->count]))
			maps->count++;
	}
	return 0;
}

static int read_text(pid_t pid, pid_t tid, char **ret)
{
	_cleanup_(kp_freep) char *text = NULL;
	size_t size;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", (int)pid, (int)tid);
	r = kp_proc_read(path, &text, &size, NULL);
	if (r < 0)
		return r;
	if (size == 0)
		return -KP_EGONE;
	*ret = kp_take(text);
	return 0;
}

static int read_text_of_any(pid_t pid, char **ret, struct kp_err *err)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;
	int r = kp_proc_tasks(pid, &tids, &count, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (read_text(pid, tids[i], ret) == 0)
			return 0;
	return kp_fail(err, KP_EGONE,
		       "pid %d: its memory map cannot be read (it is ending, or not yours)",
		       (int)pid);
}

int kp_maps_init(struct kp_maps *maps, pid_t pid, pid_t tid, struct kp_err *err)
{
	int r;

	*maps = (struct kp_maps){ 0 };
	if (tid)
		r = read_text(pid, tid, &maps->text);
	else
		r = read_text_of_any(pid, &maps->text, err);
	if (r < 0)
		return tid ? kp_fail(err, KP_EGONE, "pid %d: thread %d has no memory map", (int)pid,
				     (int)tid)
			   : r;
	r = parse_text(maps, err);
	if (r < 0)
		kp_maps_deinit(maps);
	return r;
}

void kp_maps_deinit(struct kp_maps *maps)
{
	free(maps->map);
	free(maps->text);
	*maps = (struct kp_maps){ 0 };
}

const struct kp_map *kp_maps_find(const struct kp_maps *maps, uint64_t addr)
{
	for (size_t i = 0; i < maps->count; i++)
		if (addr >= maps->map[i].start && addr < maps->map[i].end)
			return &maps->map[i];
	return NULL;
}

const struct kp_map *kp_maps_find_path(const struct kp_maps *maps, const char *path)
{
	for (size_t i = 0; i < maps->count; i++)
		if (strcmp(maps->map[i].path, path) == 0)
			return &maps->map[i];
	return NULL;
}

static bool is_that_file(int fd, const struct kp_map *map)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == map->inode;
}

/*
 * Only the inode is compared: on overlay and btrfs the device of a mapping differs from stat's.
 * The build id is checked again when the file is used.
 */
static int open_checked(const char *path, const struct kp_map *map)
{
	_cleanup_(kp_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd >= 0 && is_that_file(fd, map) ? kp_take_fd(&fd) : -1;
}

/* By the name of what was opened: another file may have been mapped at the same addresses since. */
static bool is_called(int fd, const char *path)
{
	char link[64], name[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name));
	return n > 0 && (size_t)n == strlen(path) && memcmp(name, path, (size_t)n) == 0;
}

int kp_map_open_file(pid_t pid, const struct kp_map *map)
{
	char path[4096 + 64];
	struct stat st;
	int fd;

	if (map->inode == 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid,
		 map->start, map->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && is_called(fd, map->path))
		return fd;
	if (fd >= 0)
		close(fd);
	if (map->path[0] != '/')
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, map->path);
	fd = open_checked(path, map);
	if (fd >= 0)
		return fd;
	/* A deleted main program is still behind /proc/PID/exe. */
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	fd = open_checked(path, map);
	if (fd >= 0)
		return fd;
	/* The process may be gone; its root may not have been ours. */
	fd = open_checked(map->path, map);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == map->dev)
		return fd;
	kp_closep(&fd);
	return -1;
}
