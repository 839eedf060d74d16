/* How many descriptors may be used for what: descriptor.h. Daemon; no state. */
#include "daemon/linux/descriptor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEFT 64 /* for what cannot be done without */
#define ROOM_MAX 16

static rlim_t limit_of(enum kp_descriptor_use use)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return RLIM_INFINITY;
	if (use == KP_DESCRIPTOR_WATCH)
		return limit.rlim_cur / 2;
	return limit.rlim_cur > LEFT ? limit.rlim_cur - LEFT : 0;
}

/* A new descriptor is the lowest free number: all below it are in use. */
int kp_descriptor_take(int fd, enum kp_descriptor_use use)
{
	if (fd < 0 || (rlim_t)fd < limit_of(use))
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

bool kp_descriptor_has_room(unsigned count)
{
	int fds[ROOM_MAX];
	unsigned n = 0;
	bool room;

	assert(count >= 1 && count <= ROOM_MAX);
	while (n < count && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	room = n == count;
	while (n > 0)
		close(fds[--n]);
	return room;
}

int kp_write_at(int fd, const void *data, uint64_t bytes, uint64_t off)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n =
			pwrite(fd, (const uint8_t *)data + done, bytes - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (uint64_t)n;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void kp_descriptor_close_others(int *kept, size_t count)
{
	unsigned from = 0;

	qsort(kept, count, sizeof(*kept), compare);
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < 0)
			continue;
		if ((unsigned)kept[i] > from)
			syscall(SYS_close_range, from, kept[i] - 1, 0);
		from = (unsigned)kept[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}
