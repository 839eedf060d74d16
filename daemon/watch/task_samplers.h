/*
 * Private to watch/: who is sampled by the kernel, and the events and buffers for that. Session loop.
 *
 * An event that a thread has inherited cannot be stopped from outside by itself, and each sample costs
 * the target an interrupt, though others are taken of it by then. So such events are made anew every
 * now and then, for those who give birth and those who are young, and all before are closed, with what
 * was inherited from them. When nothing is born there are none.
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
	/* CLOCK_MONOTONIC */
	uint64_t since_ns;
	uint64_t begun_ns; /* its life, or its program */
	uint64_t bore_ns; /* when it gave birth last; 0: never */
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
	uint64_t made_ns; /* CLOCK_MONOTONIC, when they were made anew */
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

/* Makes them anew when it is time, or closes all, when nothing has been born for a while. */
void kp_task_samplers_turn(struct kp_task_samplers *samplers, uint64_t now_ns);

/* Whether a source is one of these. */
bool kp_task_samplers_have(const struct kp_task_samplers *samplers,
			   const struct kp_task_source *source);
