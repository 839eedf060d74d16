/* Unit tests of the choice of clocks: by rate, by wish, and with the reason said. */
#include "daemon/clock/choose.h"
#include "daemon/clock/clock.h"
#include "tests/support/test.h"

#include <string.h>

static struct kp_clock_plan plan;
static struct kp_err err;

static uint64_t tick_mhz(void)
{
	return UINT64_C(1000000000000) / kp_kernel_tick_ns();
}

Test(choose, below_the_tick_timers_are_enough)
{
	cr_assert_eq(kp_clock_choose(KP_CLOCK_AUTO, tick_mhz() / 2, &plan, &err), 0);
	cr_assert_not(plan.task);
	cr_assert_eq(plan.timer_mode, KP_TIMER_ALL);
	cr_assert_eq(plan.timer_period_ns, UINT64_C(1000000000000) / (tick_mhz() / 2));
	cr_assert_str_eq(plan.why, "");
}

Test(choose, above_the_tick_events_take_user_time_where_they_are_allowed)
{
	bool allowed = kp_task_clock_probe(NULL) == 0;

	cr_assert_eq(kp_clock_choose(KP_CLOCK_AUTO, KP_RATE_MAX_MHZ, &plan, &err), 0);
	cr_assert_eq(plan.task, allowed);
	if (allowed) {
		cr_assert_eq(plan.task_period_ns, 100000);
		cr_assert_eq(plan.timer_mode, KP_TIMER_SYSCALL);
		/* The timer can do no better than a tick, and must not march in step with it. */
		cr_assert_gt(plan.timer_period_ns, kp_kernel_tick_ns());
		cr_assert_lt(plan.timer_period_ns, kp_kernel_tick_ns() * 102 / 100);
		cr_assert_str_eq(plan.why, "");
	} else {
		cr_assert_eq(plan.timer_mode, KP_TIMER_ALL);
		cr_assert_neq(plan.why[0], 0);
	}
}

Test(choose, timers_that_are_wished_for_say_what_they_cannot)
{
	cr_assert_eq(kp_clock_choose(KP_CLOCK_TIMER, KP_RATE_MAX_MHZ, &plan, &err), 0);
	cr_assert_not(plan.task);
	cr_assert_eq(plan.timer_mode, KP_TIMER_ALL);
	cr_assert_eq(plan.timer_period_ns, 100000);
	cr_assert_not_null(strstr(plan.why, "one signal a kernel tick"));
}

Test(choose, events_that_are_wished_for_are_used_or_an_error)
{
	int r = kp_clock_choose(KP_CLOCK_TASK, KP_RATE_MIN_MHZ, &plan, &err);

	cr_assert_eq(r == 0, kp_task_clock_probe(NULL) == 0);
	cr_assert(r < 0 || (plan.task && plan.task_period_ns == 1000000000));
	cr_assert(r == 0 || err.text[0]);
}
