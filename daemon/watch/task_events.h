/*
 * What the kernel says at once of a target's tasks: births, deaths, execs, new executable mappings,
 * and how long each ran, from dummy perf events. Needs no more rights than the task-clock event.
 * Runs in the session loop; nothing of it is in the target.
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/maps.h"
#include "proto/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum kp_task_event_type {
	KP_TASK_FORK, /* a thread (pid == parent_pid) or a process was born */
	KP_TASK_EXIT, /* a thread ended, or executes a program that may not be watched (set-uid) */
	KP_TASK_RAN, /* follows: how long it ran; not of each, where descendants are not watched */
	KP_TASK_EXEC, /* a process runs another program now */
	KP_TASK_NAME, /* a thread was renamed */
	KP_TASK_MMAP, /* something was mapped executable */
	KP_TASK_SAMPLE, /* what a descendant did on a CPU: kp_task_events_sample() */
	KP_TASK_LOST, /* records were lost: look at /proc */
};

struct kp_task_event {
	enum kp_task_event_type type;
	pid_t pid, tid;
	pid_t parent_pid, parent_tid; /* FORK */
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: LOST, or not known */
	uint64_t ran_ns; /* RAN: time on a CPU */
	bool since_birth; /* RAN: of its life; else since kp_task_events_add() */
	char comm[16]; /* EXEC, NAME */
	bool sampled; /* FORK, EXEC: from its first instruction on */
	/* good until the callback returns */
	const struct kp_map *map; /* MMAP: what was mapped; NULL: not known */
	const struct kp_ring_record *sample; /* SAMPLE: a slice, whose origin is the tid */
};

typedef int (*kp_task_event_fn)(void *ctx, const struct kp_task_event *event, struct kp_err *err);

struct kp_task_events;

/*
 * threads_only: of processes that a watched one forks nothing is told but their birth.
 * -KP_ESYSTEM with the reason where the kernel does not allow it.
 */
int kp_task_events_create(bool threads_only, struct kp_task_events **ret, struct kp_err *err);
void kp_task_events_destroy(struct kp_task_events *events);

/*
 * Before threads are added: the kernel shall sample what descends from them, from the first
 * instruction on, each period_ns of its CPU time, or nearly, and those who give birth as well. Time in
 * the kernel counts where that is allowed. When nothing has been born for a third of a second, all
 * samples end until something is. They are read late, as nobody is woken up for one. False: it cannot
 * be had here.
 */
bool kp_task_events_sample(struct kp_task_events *events, uint64_t period_ns);

/* What is asked of it: whether it does, each how often, and whether kernel time counts. */
struct kp_task_sampling {
	uint64_t period_ns; /* 0: nothing is sampled */
	bool kernel;
};
struct kp_task_sampling kp_task_events_sampling(const struct kp_task_events *events);

/*
 * Watches a thread, once, and if kp_task_events_inherits() what descends from it, for ever.
 * -KP_EGONE when it has ended; > 0 (KP_TASK_EVENTS_FULL): too many threads.
 */
enum { KP_TASK_EVENTS_FULL = 1 };
int kp_task_events_add(struct kp_task_events *events, pid_t tid, struct kp_err *err);

/* It has ended or need not be watched any more; no effect where descendants are watched. */
void kp_task_events_remove(struct kp_task_events *events, pid_t tid);

/* Whether descendants are watched from their first instruction, without being added. */
bool kp_task_events_inherits(const struct kp_task_events *events);

/* How long a thread has been on a CPU since it was added. False: it was not, or is gone. */
bool kp_task_events_ran(const struct kp_task_events *events, pid_t tid, uint64_t *ret_ns);

/* Readable (poll POLLIN) when there is something to read. */
int kp_task_events_fd(const struct kp_task_events *events);

/* Hands out what has come, in the order of its times. The callback may add and remove threads. */
int kp_task_events_read(struct kp_task_events *events, kp_task_event_fn fn, void *ctx,
			struct kp_err *err);
