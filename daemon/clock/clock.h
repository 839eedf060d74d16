/*
 * What makes a thread take samples. One contract, several clocks; choose.h picks those of a
 * session. A clock keeps its own table of threads, by thread id in the daemon's pid namespace.
 */
#pragma once

#include "common/err.h"
#include "proto/shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_clock;

struct kp_clock_ops {
	const char *name; /* "cpu-timer" */
	enum kp_sample_source source;
	/*
	 * Starts the clock of a thread, or asks for it. ns_tid: its id in its own pid namespace.
	 * -KP_EGONE when the thread has ended.
	 */
	int (*arm)(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err);
	/* The thread has ended. Its samples have been drained. */
	void (*forget)(struct kp_clock *clock, pid_t tid);
	/*
	 * As forget() for a thread that lives on: another clock samples it, so what failed for it is
	 * no failure. NULL: this clock stands in for others itself.
	 */
	void (*release)(struct kp_clock *clock, pid_t tid);
	/* The thread that a record's origin means, or 0. */
	pid_t (*owner)(const struct kp_clock *clock, uint32_t origin);
	/* Regular upkeep, once a drain. */
	void (*serve)(struct kp_clock *clock);
	/*
	 * Stops all that the daemon itself runs; owner() still answers for what is in the ring. Timers
	 * in the target are kp_remove()'s.
	 */
	void (*stop)(struct kp_clock *clock);
	void (*destroy)(struct kp_clock *clock);
};

/* Base of every clock; first member of it. */
struct kp_clock {
	const struct kp_clock_ops *ops;
	uint64_t period_ns;
	uint32_t kernel; /* as in struct kp_raw_clock: 0 user, 1 user and kernel, 2 kernel time */
	uint32_t armed; /* threads that it runs for, or has run for */
	uint32_t failed; /* threads that it could not be started for */
	bool starved; /* of descriptors: some thread's event could not be opened for want of one */
	bool soon; /* serve() is wanted within a millisecond: a thread is just being born */
};

/*
 * Per-thread POSIX CPU timers, created by the agent in the target: user and kernel time, at most
 * one signal a kernel tick. Requests travel as mail. ns_pid: the process in its own pid namespace.
 */
int kp_timer_clock_create(struct kp_shm_head *head, pid_t pid, pid_t ns_pid, uint64_t period_ns,
			  uint32_t kernel, struct kp_clock **ret, struct kp_err *err);

/*
 * CPU time until a timer's first expiration: anywhere in the period, 1..period_ns, so that short
 * threads are not always missed.
 */
uint64_t kp_timer_clock_first(uint64_t period_ns);

/* Notes the timers that the injection armed; entries with a result < 0 failed. */
int kp_timer_clock_adopt(struct kp_clock *clock, const struct kp_mail *mail, const pid_t *tid,
			 size_t count, struct kp_err *err);

/*
 * The number of threads that have used more than patience_ms of CPU time since their timer was asked
 * for, while no handler ran that would make it: it is to be made in a stop (kp_work_off_in_stop()).
 * A thread that sleeps needs no timer yet. Likewise for timers that were to be deleted because their
 * thread is another clock's by now.
 */
size_t kp_timer_clock_stuck(const struct kp_clock *clock, uint64_t patience_ms);

/* Whether nothing is to be done for the thread any more: it is armed, failed or not known. */
bool kp_timer_clock_is_settled(const struct kp_clock *clock, pid_t tid);

/*
 * CPU time that the thread had used since its birth when it was learned that its timer was made, as
 * far as schedstat knew. False: it was not made.
 */
bool kp_timer_clock_armed_at(const struct kp_clock *clock, pid_t tid, uint64_t *ret_ns);

/* The perf events that can be a clock. */
enum kp_event_kind {
	KP_EVENT_TASK_CLOCK, /* software: counts the ns that a thread runs */
	KP_EVENT_CYCLES, /* hardware: counts the CPU cycles that a thread runs in user mode */
};

/* How often an event makes a thread sample, and what such a sample stands for. */
struct kp_event_period {
	enum kp_event_kind kind;
	uint64_t count; /* of the event between two samples */
	uint64_t ns; /* CPU time that these stand for; the same number for the task-clock */
};

/*
 * A perf event, one per thread, opened by the daemon: samples in user mode only (exclude_kernel), so
 * that it never makes a system call return EINTR; gone when the daemon dies or the thread execs.
 * agent: address of its mapping in the target; a thread that does not have it is not armed.
 */
int kp_event_clock_create(pid_t pid, uint64_t agent, int signal,
			  const struct kp_event_period *period, struct kp_clock **ret,
			  struct kp_err *err);

/* CPU time of the thread since the event was started for it. False: it was not. */
bool kp_event_clock_ran(const struct kp_clock *clock, pid_t tid, uint64_t *ret_ns);

/* Whether the thread has no event because it blocks the signal. */
bool kp_event_clock_is_blocked(const struct kp_clock *clock, pid_t tid);

static inline void kp_clock_destroy(struct kp_clock *clock)
{
	if (clock)
		clock->ops->destroy(clock);
}
