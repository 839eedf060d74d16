/* Unit tests of the choice of clocks: by rate, by wish and by host, and with the reason said. */
#include "daemon/clock/choose.h"
#include "tests/support/test.h"

#include <string.h>

#define TICK_NS UINT64_C(4000000) /* 250 Hz */
#define HZ(n) (UINT64_C(1000) * (n))

static struct kp_clock_plan plan;
static struct kp_err err;

/* A host that allows events, and whose cycles counter is alive: 2.5 cycles a ns. */
static struct kp_clock_host good_host(void)
{
	return (struct kp_clock_host){ .tick_ns = TICK_NS,
				       .sample_rate_max = 100000,
				       .cycles = { .state = KP_COUNTER_ALIVE, .per_ms = 2500000 } };
}

static struct kp_clock_host without_events(void)
{
	struct kp_clock_host host = good_host();

	host.events = (struct kp_err){ .code = KP_ESYSTEM, .text = "paranoid is 4" };
	host.cycles =
		(struct kp_counter_proof){ .state = KP_COUNTER_DENIED, .why = "counters denied" };
	return host;
}

static void make(enum kp_clock_wish wish, uint64_t rate_mhz, struct kp_clock_host host)
{
	cr_assert_eq(kp_clock_plan_make(wish, rate_mhz, &host, &plan, &err), 0);
}

static void expect_timers(uint64_t period_ns, bool nudge)
{
	cr_assert_not(plan.has_event);
	cr_assert_eq(plan.timer_mode, KP_TIMER_ALL);
	cr_assert_eq(plan.timer_period_ns, period_ns);
	cr_assert_eq(plan.nudge, nudge);
}

static void expect_event(enum kp_event_kind kind, uint64_t count, uint64_t ns)
{
	cr_assert(plan.has_event);
	cr_assert_eq(plan.event.kind, kind);
	cr_assert_eq(plan.event.count, count);
	cr_assert_eq(plan.event.ns, ns);
	cr_assert_eq(plan.timer_mode, KP_TIMER_SYSCALL);
	/* The timer can do no better than a tick, and must not march in step with it. */
	cr_assert_gt(plan.timer_period_ns, TICK_NS);
	cr_assert_lt(plan.timer_period_ns, TICK_NS * 102 / 100);
	cr_assert_not(plan.nudge);
}

Test(choose, up_to_the_tick_timers_are_enough)
{
	make(KP_CLOCK_AUTO, HZ(99), good_host());
	expect_timers(10101010, true);
	cr_assert_str_eq(plan.why, "");
	make(KP_CLOCK_AUTO, HZ(250), good_host());
	expect_timers(UINT64_C(1000000000) / 249, true);
	cr_assert_str_eq(plan.why, "");
	make(KP_CLOCK_AUTO, HZ(99), without_events());
	expect_timers(10101010, false);
	cr_assert_str_eq(plan.why, "");
}

Test(choose, above_the_tick_events_take_user_time)
{
	make(KP_CLOCK_AUTO, HZ(251), good_host());
	expect_event(KP_EVENT_TASK_CLOCK, 3984063, 3984063);
	cr_assert_str_eq(plan.why, "");
	make(KP_CLOCK_AUTO, HZ(999), good_host());
	expect_event(KP_EVENT_TASK_CLOCK, 1001001, 1001001);
}

Test(choose, without_events_timers_say_what_they_cannot)
{
	make(KP_CLOCK_AUTO, HZ(999), without_events());
	expect_timers(1001001, false);
	cr_assert_str_eq(plan.why,
			 "paranoid is 4; CPU timers deliver at most one signal a kernel tick "
			 "(250 Hz here)");
}

Test(choose, timers_that_are_wished_for_say_what_they_cannot)
{
	make(KP_CLOCK_TIMER, HZ(999), good_host());
	expect_timers(1001001, true);
	cr_assert_str_eq(plan.why,
			 "CPU timers deliver at most one signal a kernel tick (250 Hz here)");
	make(KP_CLOCK_TIMER, HZ(99), good_host());
	expect_timers(10101010, true);
	cr_assert_str_eq(plan.why, "");
}

Test(choose, events_that_are_wished_for_are_used_or_an_error)
{
	struct kp_clock_host host = without_events();

	make(KP_CLOCK_TASK, HZ(99), good_host());
	expect_event(KP_EVENT_TASK_CLOCK, 10101010, 10101010);
	cr_assert_eq(kp_clock_plan_make(KP_CLOCK_TASK, HZ(99), &host, &plan, &err), -KP_ESYSTEM);
	cr_assert_str_eq(err.text, "paranoid is 4");
}

Test(choose, cycles_are_used_only_when_asked_for)
{
	struct kp_clock_host slow = good_host();

	make(KP_CLOCK_AUTO, HZ(999), good_host());
	cr_assert_eq(plan.event.kind, KP_EVENT_TASK_CLOCK);
	make(KP_CLOCK_CYCLES, HZ(999), good_host());
	/* So many cycles as pass in the time that a sample stands for. */
	expect_event(KP_EVENT_CYCLES, 2502502, 1001001);
	cr_assert_str_eq(plan.why, "");
	make(KP_CLOCK_CYCLES, HZ(99), good_host());
	expect_event(KP_EVENT_CYCLES, 25252525, 10101010);
	/* However slow the counter is said to be, there is a period. */
	slow.cycles.per_ms = 1;
	make(KP_CLOCK_CYCLES, HZ(999), slow);
	expect_event(KP_EVENT_CYCLES, 1, 1001001);
}

Test(choose, counter_that_does_not_count_gives_way_to_the_task_clock)
{
	static const enum kp_counter_state states[] = { KP_COUNTER_ABSENT, KP_COUNTER_DENIED,
							KP_COUNTER_DEAD, KP_COUNTER_MUTE,
							KP_COUNTER_SHARED };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct kp_clock_host host = good_host();

		host.cycles =
			(struct kp_counter_proof){ .state = states[i], .why = "it stands still" };
		make(KP_CLOCK_CYCLES, HZ(999), host);
		expect_event(KP_EVENT_TASK_CLOCK, 1001001, 1001001);
		cr_assert_str_eq(plan.why, "it stands still: the task-clock takes its place");
	}
}

Test(choose, cycles_fall_to_timers_where_no_event_is_allowed)
{
	make(KP_CLOCK_CYCLES, HZ(99), without_events());
	expect_timers(10101010, false);
	cr_assert_str_eq(plan.why, "counters denied; paranoid is 4");
}

Test(choose, events_stay_below_half_of_what_the_kernel_allows)
{
	struct kp_clock_host host = good_host();

	host.sample_rate_max = 3002;
	make(KP_CLOCK_AUTO, HZ(4000), host);
	expect_event(KP_EVENT_TASK_CLOCK, UINT64_C(1000000000) / 1501, UINT64_C(1000000000) / 1501);
	cr_assert_not_null(strstr(plan.why, "events get 1501 Hz at most"));
	cr_assert_not_null(strstr(plan.why, "perf_event_max_sample_rate (3002 here)"));
	make(KP_CLOCK_AUTO, HZ(1501), host);
	cr_assert_str_eq(plan.why, "");
	host.sample_rate_max = 0; /* not known */
	make(KP_CLOCK_AUTO, HZ(9999), host);
	expect_event(KP_EVENT_TASK_CLOCK, 100010, 100010);
	cr_assert_str_eq(plan.why, "");
}

Test(choose, events_slower_than_the_tick_are_left_to_who_wishes_them)
{
	struct kp_clock_host host = good_host();

	host.sample_rate_max = 201;
	make(KP_CLOCK_AUTO, HZ(999), host);
	expect_timers(1001001, true);
	make(KP_CLOCK_TASK, HZ(999), host);
	expect_event(KP_EVENT_TASK_CLOCK, 9950248, 9950248);
	host.sample_rate_max = 1;
	make(KP_CLOCK_TASK, HZ(999), host);
	cr_assert(plan.has_event);
}

Test(choose, round_rates_are_moved_a_little_down)
{
	static const struct {
		uint64_t asked, used;
	} rows[] = {
		{ 1000, 990 },
		{ 10000, 9900 },
		{ 50000, 49500 },
		{ 100000, 99000 },
		{ 250000, 249000 },
		{ 1000000, 999000 },
		{ 10000000, 9999000 },
		{ 333333, 332333 }, /* 3 ms */
		/* not round */
		{ 99000, 99000 },
		{ 999000, 999000 },
		{ 997000, 997000 },
		{ 3999000, 3999000 },
		{ 7000, 7000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make(KP_CLOCK_TIMER, rows[i].asked, good_host());
		cr_assert_eq(plan.timer_period_ns, UINT64_C(1000000000000) / rows[i].used, "%llu",
			     (unsigned long long)rows[i].asked);
		make(KP_CLOCK_TASK, rows[i].asked, good_host());
		cr_assert_eq(plan.event.ns, UINT64_C(1000000000000) / rows[i].used);
	}
}

Test(choose, reasons_that_do_not_fit_are_cut)
{
	struct kp_clock_host host = without_events();

	memset(host.events.text, 'x', sizeof(host.events.text) - 1);
	memset(host.cycles.why, 'y', sizeof(host.cycles.why) - 1);
	make(KP_CLOCK_CYCLES, HZ(999), host);
	cr_assert_leq(strlen(plan.why), sizeof(plan.why) - 1);
}

Test(choose, this_host_has_an_answer)
{
	struct kp_clock_host host;

	kp_clock_host_ask(true, &host);
	cr_assert_geq(host.tick_ns, 100000);
	cr_assert_leq(host.tick_ns, 100000000);
	cr_assert_neq(host.cycles.state, KP_COUNTER_UNASKED);
	cr_assert((host.cycles.state == KP_COUNTER_ALIVE) == (host.cycles.per_ms > 0));
	cr_assert((host.cycles.state == KP_COUNTER_ALIVE) == !host.cycles.why[0]);
	cr_assert(!host.events.code || host.events.text[0]);
	cr_assert_eq(kp_clock_choose(KP_CLOCK_AUTO, KP_RATE_MAX_MHZ, &plan, &err), 0);
	cr_assert(!plan.has_event || !host.events.code);
}
