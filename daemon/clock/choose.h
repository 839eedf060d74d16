/* Which clocks a session uses: the ladder. docs/clocks.md has the reasons and the figures. */
#pragma once

#include "common/err.h"
#include "daemon/clock/clock.h"
#include "daemon/clock/counter.h"
#include "proto/shm.h"

#include <stdbool.h>
#include <stdint.h>

#define KP_RATE_MIN_MHZ UINT64_C(1000) /* 1 Hz, in thousandths of a hertz */
#define KP_RATE_MAX_MHZ UINT64_C(10000000) /* 10 kHz */

enum kp_clock_wish { KP_CLOCK_AUTO, KP_CLOCK_TASK, KP_CLOCK_TIMER, KP_CLOCK_CYCLES, KP_CLOCK_WALL };

struct kp_clock_plan {
	bool has_event; /* an event samples user time, and timers only system calls */
	struct kp_event_period event;
	enum kp_timer_mode timer_mode;
	uint64_t timer_period_ns;
	uint64_t
		wait_period_ns; /* threads that wait are sampled too, each so often; 0: they are not */
	bool nudge; /* events may at least wake a new thread's handler, to arm its timer */
	char why[512]; /* one line: why this rung and not a better one; "" if nothing is missing */
};

/* What a choice needs to know of this machine and of what the system allows us. */
struct kp_clock_host {
	uint64_t tick_ns; /* length of a kernel tick */
	struct kp_err events; /* code 0: task-clock events are allowed; else why not */
	long paranoid; /* kernel.perf_event_paranoid, -1: no such file */
	uint64_t sample_rate_max; /* kernel.perf_event_max_sample_rate in Hz, 0: not known */
	struct kp_counter_proof cycles; /* UNASKED if not asked for */
};

/* Length of a kernel tick in ns. */
uint64_t kp_kernel_tick_ns(void);

/* Asks it. with_cycles: prove that the cycles counter counts too, for some 10 ms of CPU time. */
void kp_clock_host_ask(bool with_cycles, struct kp_clock_host *ret);

/*
 * The plan for a host. rate_mhz: KP_RATE_MIN_MHZ..KP_RATE_MAX_MHZ. KP_CLOCK_WALL is KP_CLOCK_AUTO
 * for threads that run, and samples those that wait as well. KP_CLOCK_TASK fails where perf
 * events are not allowed; KP_CLOCK_AUTO falls to timers, KP_CLOCK_CYCLES to the task-clock and then
 * to timers, and ret->why says so. Pure.
 */
int kp_clock_plan_make(enum kp_clock_wish wish, uint64_t rate_mhz, const struct kp_clock_host *host,
		       struct kp_clock_plan *ret, struct kp_err *err);

/* kp_clock_plan_make() for the host that this is, asked anew: the answers hold for a session. */
int kp_clock_choose(enum kp_clock_wish wish, uint64_t rate_mhz, struct kp_clock_plan *ret,
		    struct kp_err *err);
