/*
 * Private to watch/: the perf events that tell of tasks. They count nothing; a kernel that allows
 * the task-clock event allows these.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum kp_task_perf {
	KP_TASK_PERF_BUFFER, /* says nothing itself; others are directed to its buffer */
	KP_TASK_PERF_LINE, /* records of a thread and all its descendants, on one CPU */
	KP_TASK_PERF_ENDS, /* records of how long each descendant ran, when it ends */
	KP_TASK_PERF_ONE, /* records of a single thread */
	KP_TASK_PERF_OWN, /* no records; how long the thread itself has run can be read from it */
};

/*
 * threads_only: the descendants are threads, not processes. cpu -1: all. A descriptor, or -1 with
 * errno.
 */
int kp_task_perf_open(enum kp_task_perf kind, pid_t tid, int cpu, bool threads_only);
