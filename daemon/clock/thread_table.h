/* Private to clock/: what a clock keeps for each thread. Linear: threads are some hundred. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_clock_thread {
	pid_t tid, ns_tid;
	int fd; /* task-clock */
	int timer_id;
	uint32_t slot; /* of the request in the mailbox */
	uint64_t asked_ns; /* when it was posted (timer), or asked for first (task-clock) */
	uint64_t cpu_ns; /* CPU time of the thread when the request was posted */
	uint64_t again_ns; /* task-clock, waiting: when to try next */
	bool released; /* timer, leaving: its thread lives on and must not be signalled by it */
	enum {
		KP_THREAD_WAITING,
		KP_THREAD_POSTED,
		KP_THREAD_ARMED,
		KP_THREAD_LEAVING,
		KP_THREAD_FAILED
	} state;
};

struct kp_thread_table {
	struct kp_clock_thread *thread;
	size_t count, room;
};

/* A zeroed new entry, or NULL when out of memory. Pointers are valid until the next call. */
struct kp_clock_thread *kp_thread_table_add(struct kp_thread_table *t);
struct kp_clock_thread *kp_thread_table_find(const struct kp_thread_table *t, pid_t tid);
/* Removes an entry of the table; the last one takes its place. */
void kp_thread_table_remove(struct kp_thread_table *t, struct kp_clock_thread *thread);
void kp_thread_table_deinit(struct kp_thread_table *t);
