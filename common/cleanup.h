/*
 * Cleanup attributes for local owners: an early return is the normal exit.
 *
 *	_cleanup_(kp_closep) int fd = open(...);
 *	_cleanup_(kp_freep) char *text = NULL;
 *
 * kp_take(x) hands the value on and leaves the local empty.
 */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void kp_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void kp_freep(void *p)
{
	free(*(void **)p);
}

static inline void kp_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void kp_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define kp_take(p)                                                                                 \
	({                                                                                         \
		__typeof__(p) taken = (p);                                                         \
		(p) = NULL;                                                                        \
		taken;                                                                             \
	})

static inline int kp_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
