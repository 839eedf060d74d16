/* Which clocks a session uses: the ladder, so far of two rungs. docs/architecture.md, "Clocks". */
#pragma once

#include "common/err.h"
#include "proto/shm.h"

#include <stdbool.h>
#include <stdint.h>

#define KP_RATE_MIN_MHZ UINT64_C(1000)	      /* 1 Hz, in thousandths of a hertz */
#define KP_RATE_MAX_MHZ UINT64_C(10000000) /* 10 kHz */

enum kp_clock_wish { KP_CLOCK_AUTO, KP_CLOCK_TASK, KP_CLOCK_TIMER };

struct kp_clock_plan {
	bool task; /* task-clock events for user time */
	uint64_t task_period_ns;
	enum kp_timer_mode timer_mode;
	uint64_t timer_period_ns;
	bool nudge; /* events may at least wake a new thread's handler, to arm its timer */
	char why[256]; /* one line: why this rung and not a better one; "" if nothing is missing */
};

/* Length of a kernel tick in ns. */
uint64_t kp_kernel_tick_ns(void);

/*
 * rate_mhz: KP_RATE_MIN_MHZ..KP_RATE_MAX_MHZ. KP_CLOCK_TASK fails where perf events are not
 * allowed; KP_CLOCK_AUTO falls back to timers.
 */
int kp_clock_choose(enum kp_clock_wish wish, uint64_t rate_mhz, struct kp_clock_plan *ret,
		    struct kp_err *err);
