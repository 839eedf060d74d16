/* The choice of clocks: choose.h. Daemon. */
#include "daemon/clock/choose.h"

#include "daemon/clock/clock.h"

#include <stdio.h>
#include <time.h>

uint64_t kp_kernel_tick_ns(void)
{
	struct timespec ts;

	/* The coarse clocks advance once a tick; their resolution is its length. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &ts) != 0 || ts.tv_nsec <= 0)
		return 4000000;
	return (uint64_t)ts.tv_nsec;
}

/* Off the tick by a prime's reciprocal, so that the two do not march in step. */
static uint64_t beside_tick(uint64_t tick_ns)
{
	return tick_ns + tick_ns / 127;
}

int kp_clock_choose(enum kp_clock_wish wish, uint64_t rate_mhz, struct kp_clock_plan *ret,
		    struct kp_err *err)
{
	uint64_t period = UINT64_C(1000000000000) / rate_mhz, tick = kp_kernel_tick_ns();
	struct kp_err why;
	bool events = kp_task_clock_probe(&why) == 0;

	*ret = (struct kp_clock_plan){ .timer_mode = KP_TIMER_ALL, .timer_period_ns = period, .nudge = events };
	if (wish == KP_CLOCK_TIMER || (wish == KP_CLOCK_AUTO && period >= tick)) {
		if (period < tick)
			snprintf(ret->why, sizeof(ret->why),
				 "CPU timers deliver at most one signal a kernel tick (%.0f Hz here)",
				 1e9 / (double)tick);
		return 0;
	}
	if (!events) {
		if (wish == KP_CLOCK_TASK) {
			if (err)
				*err = why;
			return -(int)why.code;
		}
		snprintf(ret->why, sizeof(ret->why),
			 "%.160s; CPU timers deliver at most one signal a kernel tick (%.0f Hz here)", why.text,
			 1e9 / (double)tick);
		return 0;
	}
	ret->task = true;
	ret->nudge = false;
	ret->task_period_ns = period;
	ret->timer_mode = KP_TIMER_SYSCALL;
	ret->timer_period_ns = beside_tick(tick);
	return 0;
}
