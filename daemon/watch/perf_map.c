/* What JIT compilers say of their code, as text: perf_map.h. Daemon, session loop. */
#include "daemon/watch/perf_map.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A line that is longer is cut; there are names of some kilobytes. */
#define LINE_MAX_BYTES 16384

/* Anybody may have put it there, so it must be the process's own, or root's. */
static bool is_trusted(pid_t pid, int fd)
{
	struct stat file, process;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
		return false;
	if (file.st_uid == 0 || file.st_uid == geteuid())
		return true;
	return stat(path, &process) == 0 && file.st_uid == process.st_uid;
}

static FILE *open_at(pid_t owner, const char *root, pid_t pid)
{
	_cleanup_(kp_closep) int fd = -1;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", root, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || !is_trusted(owner, fd))
		return NULL;
	fd = kp_descriptor_take(fd, KP_DESCRIPTOR_CLOCK);
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (file)
		kp_take_fd(&fd);
	return file;
}

/* While the process lives, as it sees the file; later, where it was if that is where we are. */
FILE *kp_perf_map_open(pid_t pid, pid_t ns_pid)
{
	char root[64];
	FILE *file;

	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	file = open_at(pid, root, ns_pid);
	return file || access(root, X_OK) == 0 ? file : open_at(pid, "", pid);
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

/* The rest of a line that did not fit. */
static void skip_line(FILE *f)
{
	for (int c = getc_unlocked(f); c != EOF && c != '\n'; c = getc_unlocked(f))
		;
}

int kp_perf_map_read(FILE *map, kp_compiled_fn fn, void *ctx, struct kp_err *err)
{
	_cleanup_(kp_freep) char *line = malloc(LINE_MAX_BYTES);
	int r = 0;

	if (!line)
		return kp_fail_nomem(err);
	while (r == 0 && fgets(line, LINE_MAX_BYTES, map)) {
		size_t len = strcspn(line, "\r\n");
		uint64_t start, end;
		const char *name;

		if (!line[len])
			skip_line(map);
		line[len] = '\0';
		if (parse(line, &start, &end, &name))
			r = fn(ctx, start, end, name, err);
	}
	return r;
}
