/*
 * The agent in one program image of the target: shared memory, clocks, threads, modules, drain. An
 * exec ends it; the session then makes another one. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/inject.h"
#include "daemon/clock/choose.h"
#include "daemon/clock/clock.h"
#include "daemon/drain/drain.h"
#include "daemon/watch/modules.h"
#include "daemon/watch/threads.h"

#include <stdbool.h>
#include <stdint.h>

struct kp_attachment_options {
	uint64_t rate_mhz;
	uint32_t depth;
	uint64_t cap; /* samples at most, from here on */
	int signal;   /* 0: choose */
	const struct kp_clock_plan *clocks;
	struct kp_raw_writer *writer;
	struct kp_pins *pins;
};

struct kp_attachment {
	struct kp_attachment_options options;
	struct kp_target target;
	int signal;
	struct kp_shm_map map;
	struct kp_clock *timer;
	struct kp_clock *task;	/* NULL: timers only */
	struct kp_clock *nudge; /* timers only: events that run a new thread's handler once, or NULL */
	struct kp_threads threads;
	struct kp_modules modules;
	struct kp_drain drain;
	uint64_t attached_ns; /* CLOCK_MONOTONIC */
	uint64_t full_poll_ns, scan_ns, names_ns; /* when last done */
	uint64_t stopped_ns; /* by attaching and arming */
	uint64_t scan_cost_ns; /* how long the last regular scan took */
	uint64_t rescan_ns;  /* until modules are looked at again for an unknown caller */
	bool live;	     /* the agent is in the target */
};

/* Into a process that runs. target: from kp_target_check(). */
int kp_attachment_open(struct kp_attachment *a, const struct kp_attachment_options *options,
		       const struct kp_target *target, struct kp_err *err);

/* Into a program that is started: see kp_launch(), also for the results > 0. */
int kp_attachment_launch(struct kp_attachment *a, const struct kp_attachment_options *options,
			 char *const argv[], void (*before_exec)(void *), void *ctx,
			 struct kp_err *err);

/*
 * One turn: threads and modules are looked at as often as is due, samples drained, the heartbeat
 * given. elapsed_ns: since the start of the window.
 */
int kp_attachment_turn(struct kp_attachment *a, uint64_t elapsed_ns, struct kp_err *err);

/*
 * Stops the clocks, takes the agent out of the target (if it is there), drains the rest.
 * *ret_stopped_ns: how long a thread stood still for it. Even on failure the rest was drained.
 */
int kp_attachment_close(struct kp_attachment *a, uint64_t elapsed_ns, uint64_t *ret_stopped_ns,
			struct kp_err *err);

void kp_attachment_deinit(struct kp_attachment *a);
