/*
 * Private to watch/: what the kernel says of a task beyond who and when: the file that was mapped, the
 * sample that was taken. Session loop.
 */
#pragma once

#include "daemon/linux/maps.h"
#include "daemon/watch/record_ring.h"
#include "daemon/watch/task_events.h"
#include "daemon/watch/task_sample.h"

#include <stdint.h>

#define KP_TASK_RECORD_MAX 8192u

/* Room for that of one record. */
struct kp_task_detail {
	_Alignas(8) uint8_t bytes[KP_TASK_RECORD_MAX];
	struct kp_map map;
	union kp_task_sample sample;
};

/* Of the record at the front of the ring: sets the event's pointers, or leaves them NULL. */
void kp_task_detail_take(struct kp_task_detail *detail, const struct kp_record_ring *ring,
			 struct kp_task_event *event);
