/*
 * Private to watch/: who is sampled by the kernel, and the events and buffers for that. Session loop.
 *
 * An event that a thread has inherited cannot be stopped from outside, and each sample costs the
 * target an interrupt, though others are taken of it by then. So there are such events only while
 * something is born now and then; then they are closed, with all that was inherited from them.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/task_events.h"
#include "daemon/watch/task_watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread that is sampled, and hands that down. */
struct kp_task_sampled {
	pid_t tid;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
};

struct kp_task_samplers {
	struct kp_task_sampling sampling; /* period 0: nothing is ever sampled */
	bool threads_only;
	struct kp_task_source *source[KP_TASK_CPUS_MAX]; /* one a CPU */
	size_t source_count;
	struct kp_task_sampled *sampled;
	size_t count, room;
	int *fd; /* events that others may have inherited, though their thread has ended */
	size_t fd_count, fd_room;
	bool awake; /* something was born lately: what is added is sampled */
	uint64_t birth_ns; /* CLOCK_MONOTONIC, of the latest */
};

/* Buffers for the CPUs that the shared ones are for. False: it cannot be had here. */
bool kp_task_samplers_init(struct kp_task_samplers *samplers, int epoll,
			   const struct kp_task_shared *shared, bool threads_only,
			   uint64_t period_ns);
void kp_task_samplers_deinit(struct kp_task_samplers *samplers);

/* A thread that is to hand it down from now on, if samplers are awake. */
void kp_task_samplers_add(struct kp_task_samplers *samplers, pid_t tid);

/* An event, before it is handed out: sets `sampled`. The parent of a FORK hands down from now on. */
void kp_task_samplers_hear(struct kp_task_samplers *samplers, struct kp_task_event *event);

/* Closes all when nothing has been born for a while. */
void kp_task_samplers_rest(struct kp_task_samplers *samplers, uint64_t now_ns);

/* Whether a source is one of these. */
bool kp_task_samplers_have(const struct kp_task_samplers *samplers,
			   const struct kp_task_source *source);
