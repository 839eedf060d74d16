/* The choice of clocks: choose.h. Daemon. */
#include "daemon/clock/choose.h"

#include "daemon/clock/outside.h"
#include "daemon/clock/perf_event.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MHZ_NS UINT64_C(1000000000000) /* period in ns = this / rate in thousandths of a hertz */
#define ROUND_NS UINT64_C(100000) /* periods of whole tenths of a millisecond are round, */
#define ROUND_MHZ UINT64_C(10000) /* and so are rates of whole tens of hertz */
#define ROUND_PART UINT64_C(100000) /* of the period, at most, from a round one */

uint64_t kp_kernel_tick_ns(void)
{
	struct timespec ts;

	/* The coarse clocks advance once a tick; their resolution is its length. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &ts) != 0 || ts.tv_nsec <= 0)
		return 4000000;
	return (uint64_t)ts.tv_nsec;
}

void kp_clock_host_ask(bool with_cycles, struct kp_clock_host *ret)
{
	long max = kp_perf_sample_rate_max();

	*ret = (struct kp_clock_host){ .tick_ns = kp_kernel_tick_ns(),
				       .paranoid = kp_perf_paranoid(),
				       .sample_rate_max = max > 0 ? (uint64_t)max : 0 };
	if (kp_perf_event_probe(KP_EVENT_TASK_CLOCK, &ret->events) == 0)
		ret->events.code = 0;
	if (with_cycles)
		kp_cycles_prove(&ret->cycles);
}

__attribute__((format(printf, 2, 3))) static void say_why(struct kp_clock_plan *plan,
							  const char *fmt, ...)
{
	size_t at = strlen(plan->why);
	va_list ap;

	if (at)
		at += (size_t)snprintf(plan->why + at, sizeof(plan->why) - at, "; ");
	if (at >= sizeof(plan->why))
		return;
	va_start(ap, fmt);
	vsnprintf(plan->why + at, sizeof(plan->why) - at, fmt, ap);
	va_end(ap);
}

static bool is_round(uint64_t rate_mhz)
{
	uint64_t period = MHZ_NS / rate_mhz, slack = 1 + period / ROUND_PART;

	return rate_mhz % ROUND_MHZ == 0 || (period + slack) % ROUND_NS <= 2 * slack;
}

/*
 * A program that does something each millisecond, sampled each millisecond, is always seen at the
 * same spot. So a round rate is lowered by 1 Hz, or by a hundredth where that is less, as users do
 * by hand: 1000 to 999, 100 to 99, 10 to 9.9. The phase then wanders through all of the period, in
 * a second where the rate allows it.
 */
static uint64_t beside_round(uint64_t rate_mhz)
{
	if (!is_round(rate_mhz))
		return rate_mhz;
	return rate_mhz - (rate_mhz / 100 < 1000 ? rate_mhz / 100 : 1000);
}

/* Off the tick by a prime's reciprocal, so that the two do not march in step. */
static uint64_t beside_tick(uint64_t tick_ns)
{
	return tick_ns + tick_ns / 127;
}

/*
 * Half of what the kernel allows (it halves the limit by itself where it finds sampling too costly,
 * and throttles what is above), in thousandths of a hertz.
 */
static uint64_t event_rate_max(const struct kp_clock_host *host)
{
	return host->sample_rate_max ? host->sample_rate_max * 1000 / 2 : UINT64_MAX;
}

static void plan_timers(struct kp_clock_plan *plan, uint64_t rate_mhz,
			const struct kp_clock_host *host)
{
	if (MHZ_NS / rate_mhz < host->tick_ns)
		say_why(plan, "CPU timers deliver at most one signal a kernel tick (%.0f Hz here)",
			1e9 / (double)host->tick_ns);
}

/* At least one: a period of 0 would mean an event that never samples. */
static uint64_t cycles_in(uint64_t ns, const struct kp_clock_host *host)
{
	uint64_t cycles = (uint64_t)((unsigned __int128)ns * host->cycles.per_ms / 1000000);

	return cycles ? cycles : 1;
}

static void plan_event(struct kp_clock_plan *plan, uint64_t rate_mhz, bool cycles,
		       const struct kp_clock_host *host)
{
	uint64_t max = event_rate_max(host), used = rate_mhz < max ? rate_mhz : max;

	if (used < rate_mhz)
		say_why(plan,
			"events get %.0f Hz at most, half of kernel.perf_event_max_sample_rate "
			"(%llu here)",
			(double)max / 1000, (unsigned long long)host->sample_rate_max);
	plan->event.kind = cycles ? KP_EVENT_CYCLES : KP_EVENT_TASK_CLOCK;
	plan->event.ns = MHZ_NS / beside_round(used);
	plan->event.count = cycles ? cycles_in(plan->event.ns, host) : plan->event.ns;
	plan->has_event = true;
	plan->nudge = false;
	plan->timer_mode = KP_TIMER_SYSCALL;
	plan->timer_period_ns = beside_tick(host->tick_ns);
}

static void plan_waiting(struct kp_clock_plan *plan, uint64_t rate_mhz)
{
	plan->wait_period_ns = MHZ_NS / beside_round(rate_mhz);
	if (plan->wait_period_ns >= KP_OUTSIDE_PERIOD_MIN_NS)
		return;
	plan->wait_period_ns = KP_OUTSIDE_PERIOD_MIN_NS;
	say_why(plan, "threads that wait are looked at 1000 times a second at most");
}

int kp_clock_plan_make(enum kp_clock_wish wish, uint64_t rate_mhz, const struct kp_clock_host *host,
		       struct kp_clock_plan *ret, struct kp_err *err)
{
	bool fine = MHZ_NS / rate_mhz < host->tick_ns; /* finer than timers can */
	bool events = host->events.code == 0;
	bool cycles = wish == KP_CLOCK_CYCLES && host->cycles.state == KP_COUNTER_ALIVE;

	bool wall = wish == KP_CLOCK_WALL;

	if (wall)
		wish = KP_CLOCK_AUTO;
	*ret = (struct kp_clock_plan){ .timer_mode = KP_TIMER_ALL,
				       .timer_period_ns = MHZ_NS / beside_round(rate_mhz),
				       .nudge = events };
	if (wish == KP_CLOCK_TASK && !events) {
		if (err)
			*err = host->events;
		return -(int)host->events.code;
	}
	if (wish == KP_CLOCK_CYCLES && !cycles)
		say_why(ret, "%s%s", host->cycles.why,
			events ? ": the task-clock takes its place" : "");
	if (!events && (fine || wish == KP_CLOCK_CYCLES))
		say_why(ret, "%.200s", host->events.text);
	/* Where events may not even keep up with the tick, timers are the finer clock. */
	if (!events || wish == KP_CLOCK_TIMER ||
	    (wish == KP_CLOCK_AUTO && (!fine || MHZ_NS / event_rate_max(host) > host->tick_ns)))
		plan_timers(ret, rate_mhz, host);
	else
		plan_event(ret, rate_mhz, cycles, host);
	if (wall)
		plan_waiting(ret, rate_mhz);
	return 0;
}

int kp_clock_choose(enum kp_clock_wish wish, uint64_t rate_mhz, struct kp_clock_plan *ret,
		    struct kp_err *err)
{
	struct kp_clock_host host;

	kp_clock_host_ask(wish == KP_CLOCK_CYCLES, &host);
	return kp_clock_plan_make(wish, rate_mhz, &host, ret, err);
}
