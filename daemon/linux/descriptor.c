/* How many descriptors may be used for what: descriptor.h. Daemon; no state. */
#include "daemon/linux/descriptor.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEFT 64 /* for what cannot be done without */

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
