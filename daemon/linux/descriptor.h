/*
 * Descriptors are few where there are many targets. What can be done without leaves some to what
 * cannot: reading /proc, stopping a thread, the raw file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kp_descriptor_use {
	KP_DESCRIPTOR_WATCH, /* to hear of things at once; takes half of what there is */
	KP_DESCRIPTOR_CLOCK, /* to sample a thread, or to keep a file; leaves a few */
};

/*
 * fd, if it may be had for that; else -1 with errno EMFILE, and it is closed. fd < 0 is passed on
 * with errno. RLIMIT_NOFILE is asked each time.
 */
int kp_descriptor_take(int fd, enum kp_descriptor_use use);

/* Whether so many descriptors (1 to 16) could be opened now. */
bool kp_descriptor_has_room(unsigned count);

/*
 * Writes all of it at the offset. Memory of a memfd is filled so and not through a mapping: there lack
 * of memory is SIGBUS, here an error. 0 or -1, with a part written.
 */
int kp_write_at(int fd, const void *data, uint64_t bytes, uint64_t off);

/* Closes all descriptors but these, count of them (-1 is none), which it sorts. For forked children. */
void kp_descriptor_close_others(int *kept, size_t count);
