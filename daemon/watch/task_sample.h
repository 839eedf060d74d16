/*
 * Private to watch/: what the kernel copies of a thread that it samples, and the events that make it
 * do so. The registers are in a file for each CPU, task_regs_*.c.
 */
#pragma once

#include "daemon/watch/task_events.h"
#include "proto/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KP_TASK_SAMPLES_BYTES (256u * 1024u) /* of the buffer for a CPU */
#define KP_TASK_STACK_BYTES 4096u /* of a stack that are copied, from its end upwards */
#define KP_TASK_SAMPLE_REGS_MAX 64u /* registers of a record at most */

/* Room for a record of the greatest sample. */
union kp_task_sample {
	struct kp_ring_record record;
	uint64_t words[sizeof(struct kp_ring_record) / 8 + KP_SLICE_HEAD_WORDS +
		       KP_TASK_STACK_BYTES / 8];
};

/*
 * An event that samples a thread and what descends from it, on one CPU; tid 0: the caller, for a
 * buffer that others are directed to. A descriptor, or -1 with errno.
 */
int kp_task_sample_open(pid_t tid, int cpu, bool threads_only,
			const struct kp_task_sampling *sampling);

/*
 * What such an event has written, head and all. False: it makes no sense, or there is nothing of
 * user mode in it.
 */
bool kp_task_sample_decode(const uint8_t *bytes, size_t size, union kp_task_sample *ret);

/* ---- by CPU ---- */

/* As sample_regs_user of perf_event_open(2) wants them; they are written in ascending order. */
uint64_t kp_task_regs_mask(void);

/* Fills in registers and PC of the slice from so many values. */
void kp_task_regs_take(const uint64_t *value, size_t count, struct kp_ring_slice *ret);
