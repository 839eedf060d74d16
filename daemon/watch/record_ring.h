/*
 * Private to watch/: a buffer that the kernel writes records about tasks into (perf_event_open(2)),
 * and what they say. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/task_events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_record_ring {
	void *page; /* the kernel's control page, the data behind it; NULL: not mapped */
	size_t data_bytes; /* a power of two, at least a page */
	uint64_t tail; /* what is read next */
	uint64_t head; /* how far the kernel was when it was last looked at */
	uint32_t front_bytes; /* of the record at tail, once that has been looked at */
};

/* Of an event's descriptor. data_bytes: as in the struct. */
int kp_record_ring_map(int fd, size_t data_bytes, struct kp_record_ring *ret, struct kp_err *err);
void kp_record_ring_unmap(struct kp_record_ring *ring);

/* Takes note of what has been written by now. True if there is something to read. */
bool kp_record_ring_look(struct kp_record_ring *ring);

/*
 * The next record, without taking it, and without what is behind pointers. Records that say nothing of tasks are passed over, damaged
 * ones are a KP_TASK_LOST. False: there is none.
 */
bool kp_record_ring_front(struct kp_record_ring *ring, struct kp_task_event *ret);
/* The whole of it, head and all: its size, at most room bytes are copied. After _front(). */
size_t kp_record_ring_copy(const struct kp_record_ring *ring, void *ret, size_t room);

void kp_record_ring_take(struct kp_record_ring *ring);

/* Lets the kernel write over what was taken. */
void kp_record_ring_release(struct kp_record_ring *ring);
