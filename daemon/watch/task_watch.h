/*
 * Private to watch/: one thread that is watched, and the buffers that the kernel's records of it come
 * through. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/record_ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KP_TASK_CPUS_MAX 32 /* up to here descendants inherit a watch */

/* A buffer of an event. */
struct kp_task_source {
	struct kp_record_ring ring;
	int fd; /* of the event */
	int cpu; /* -1: any */
};

/* Takes fd and adds it to the epoll set; bytes: of the buffer, a power of two. */
int kp_task_source_open(int epoll, int fd, size_t bytes, int cpu, struct kp_task_source **ret,
			struct kp_err *err);
void kp_task_source_free(struct kp_task_source *source);

/* One buffer a CPU, and one more for how long descendants ran. */
struct kp_task_shared {
	struct kp_task_source *source[KP_TASK_CPUS_MAX + 1];
	size_t count; /* 0: there are none, each thread has a buffer of its own */
};

struct kp_task_watch {
	pid_t tid;
	int own; /* event to read its time from; with a buffer of its own that one's */
	int fd[KP_TASK_CPUS_MAX + 1]; /* events that are directed to shared buffers */
	size_t fd_count;
	struct kp_task_source *source; /* its own buffer, or NULL */
	bool removed; /* while records are read: freed afterwards */
	bool ended;
};

/* A thread and what descends from it. -KP_EGONE when it has ended. */
int kp_task_watch_line(pid_t tid, const struct kp_task_shared *shared, bool threads_only,
		       struct kp_task_watch **ret, struct kp_err *err);
/* One thread. */
int kp_task_watch_one(pid_t tid, int epoll, struct kp_task_watch **ret, struct kp_err *err);
void kp_task_watch_free(struct kp_task_watch *watch);

/* How long the thread has been on a CPU since then; also when it has ended. */
bool kp_task_watch_ran(const struct kp_task_watch *watch, uint64_t *ret_ns);
