/*
 * Clocks that tick outside the target: kitprof looks at threads itself, without a signal. Two of
 * them, for threads that block the sampling signal (stop.c) and for threads that wait (wait.c).
 *
 * Both know the time that passed from the kernel's own account of the thread (struct kp_proc_sched)
 * and only spread it over what they see: weights are right however often they get to look.
 */
#pragma once

#include "common/err.h"
#include "daemon/clock/clock.h"
#include "daemon/linux/proc.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KP_OUTSIDE_PERIOD_MIN_NS UINT64_C(1000000) /* 1000 Hz, as each look suspends a thread */

/* A word of memory that a walk went by. */
struct kp_sight_word {
	uint64_t addr, value;
};

/* A stack as a look has shown it. Borrowed for the call that it is handed to. */
struct kp_sight {
	uint64_t sp; /* of the thread */
	const uint64_t *pc; /* depth of them, leaf first, as in a ring record */
	uint16_t depth;
	uint8_t walk_end;
	uint32_t how;
	const struct kp_sight_word *word; /* what the walk has read, besides the registers */
	uint32_t word_count;
	/* of a stop */
	struct kp_proc_sched sched; /* while it stood still */
	bool in_call; /* on its way out of a system call, which it may have slept in */
};

enum kp_ask {
	KP_ASK_DONE, /* the answer comes to kp_..._clock_seen() */
	KP_ASK_LATER, /* not now, there are too many others */
	KP_ASK_NEVER, /* no stop: not allowed, not possible, or there have been enough */
};

/* What these clocks need of the world. */
struct kp_outside_ops {
	uint64_t (*now_ns)(void *ctx);
	/* As in daemon/linux/proc.h. */
	bool (*sched)(void *ctx, pid_t tid, struct kp_proc_sched *ret);
	void (*where)(void *ctx, pid_t tid, struct kp_thread_where *ret);
	/* Whether the thread may be looked at without a stop once more; bounds how many are. */
	bool (*may_read)(void *ctx);
	/*
	 * The stack of a thread that sleeps there, as far as it can be told without a stop. False: it
	 * cannot, not to its end. *ret is valid until the next call.
	 */
	bool (*read)(void *ctx, pid_t tid, const struct kp_thread_where *where,
		     struct kp_sight *ret);
	/* Has the thread looked at in a short stop. */
	enum kp_ask (*ask)(void *ctx, struct kp_clock *clock, pid_t tid);
	/* Whether these words are in the process's memory as they were. */
	bool (*unchanged)(void *ctx, const struct kp_sight_word *word, uint32_t count);
	/* A sample, of weight period_ns * (1 + overrun). */
	void (*put)(void *ctx, struct kp_clock *clock, pid_t tid, uint32_t overrun,
		    const struct kp_sight *sight);
};

struct kp_outside {
	const struct kp_outside_ops *ops;
	void *ctx;
};

/*
 * Samples threads in short stops, each time that they have run for a period: user and kernel time.
 * A thread that sleeps is not stopped. period_ns: at least KP_OUTSIDE_PERIOD_MIN_NS.
 */
int kp_stop_clock_create(const struct kp_outside *outside, uint64_t period_ns,
			 struct kp_clock **ret, struct kp_err *err);
/* An answer to ask(); sight NULL: nothing was seen. */
void kp_stop_clock_seen(struct kp_clock *clock, pid_t tid, const struct kp_sight *sight);
/* When serve() has something to do, CLOCK_MONOTONIC; UINT64_MAX: nothing. */
uint64_t kp_stop_clock_due_ns(const struct kp_clock *clock);

/*
 * Samples what threads wait for: all time that they neither run nor wait for a CPU. A thread that is
 * first seen waiting somewhere is stopped once to learn its stack, unless that can be read without;
 * which then holds each time that it waits there.
 */
int kp_wait_clock_create(const struct kp_outside *outside, uint64_t period_ns,
			 struct kp_clock **ret, struct kp_err *err);
void kp_wait_clock_seen(struct kp_clock *clock, pid_t tid, const struct kp_sight *sight);
/* More of the code can be walked now: stacks that were not whole are learned anew. */
void kp_wait_clock_relearn(struct kp_clock *clock);
uint64_t kp_wait_clock_due_ns(const struct kp_clock *clock);
