/*
 * The threads of a target: who is there, who came, who went. By reading /proc/PID/task; runs in the
 * session loop.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_thread {
	pid_t tid; /* in the daemon's pid namespace */
	pid_t ns_tid; /* in its own */
	char comm[64];
	uint64_t arm_ns; /* CLOCK_MONOTONIC: when its clocks are started; 0: they have been */
	uint64_t sampled_ns; /* CPU time in samples that its own clocks made it take */
	bool blocks; /* it blocks the sampling signal: its clocks are silent */
	bool stopped; /* it was sampled in short stops for that */
};

struct kp_threads {
	pid_t pid;
	bool own_namespace; /* ids in the target's pid namespace differ from ours */
	struct kp_thread *thread; /* ascending by tid */
	size_t count, room;
	uint64_t seen; /* different threads so far */
};

/* Called for each thread that came (after it is in the table) and that went (before it leaves). */
typedef int (*kp_thread_event_fn)(void *ctx, const struct kp_thread *thread, bool came,
				  struct kp_err *err);

/* ns_pid: the target's pid in its own namespace. */
void kp_threads_init(struct kp_threads *threads, pid_t pid, pid_t ns_pid);
void kp_threads_deinit(struct kp_threads *threads);

/* Puts in a thread that is known to be there, without an event. */
int kp_threads_add(struct kp_threads *threads, pid_t tid, struct kp_err *err);

/* The thread of that id, or NULL. Valid until the table changes. */
struct kp_thread *kp_threads_find(const struct kp_threads *threads, pid_t tid);

/*
 * A thread that somebody has told of: it comes now, if it is there and not in the table yet. What it
 * may have started before it was watched is found by the next kp_threads_poll().
 */
int kp_threads_born(struct kp_threads *threads, pid_t tid, kp_thread_event_fn event, void *ctx,
		    struct kp_err *err);

/* Compares with /proc. A target that is gone is no error: all its threads went. */
int kp_threads_poll(struct kp_threads *threads, kp_thread_event_fn event, void *ctx,
		    struct kp_err *err);
