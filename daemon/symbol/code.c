/* Code out of a module's file: code.h. Runs in the daemon. */
#include "daemon/symbol/code.h"

#include "common/cleanup.h"
#include "daemon/linux/maps.h"
#include "daemon/symbol/elffile.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUILD_ID_MAX 64

static bool is_the_one(const struct kp_module_file *file, int fd)
{
	uint8_t id[BUILD_ID_MAX];
	size_t len;

	if (!file->build_id_len)
		return true;
	len = kp_build_id_read(fd, id, sizeof(id));
	return len == file->build_id_len && memcmp(id, file->build_id, len) == 0;
}

static size_t read_at(int fd, uint64_t offset, void *ret, size_t n)
{
	ssize_t got = offset <= INT64_MAX ? pread(fd, ret, n, (off_t)offset) : -1;

	return got > 0 ? (size_t)got : 0;
}

static size_t read_image(const struct kp_module_file *file, uint64_t offset, void *ret, size_t n)
{
	if (offset >= file->image_size)
		return 0;
	if (n > file->image_size - offset)
		n = file->image_size - offset;
	memcpy(ret, (const uint8_t *)file->image + offset, n);
	return n;
}

static size_t read_below(const struct kp_module_file *file, const char *root, uint64_t offset,
			 void *ret, size_t n)
{
	_cleanup_(kp_closep) int fd = -1;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s", root, file->path) >= (int)sizeof(path))
		return 0;
	fd = kp_open_regular(path);
	return fd >= 0 && is_the_one(file, fd) ? read_at(fd, offset, ret, n) : 0;
}

/* In the order in which the module itself is looked for (module.c). */
size_t kp_code_read(const struct kp_module_file *file, const char *sysroot, uint64_t file_offset,
		    void *ret, size_t n)
{
	size_t got = 0;

	if (file->image)
		return read_image(file, file_offset, ret, n);
	if (file->fd >= 0 && is_the_one(file, file->fd))
		return read_at(file->fd, file_offset, ret, n);
	if (file->path[0] != '/' || (sysroot && !file->build_id_len))
		return 0;
	if (sysroot)
		got = read_below(file, sysroot, file_offset, ret, n);
	return got ? got : read_below(file, "", file_offset, ret, n);
}
