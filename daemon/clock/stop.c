/*
 * The clock of threads that block the sampling signal: outside.h. Runs in the daemon.
 *
 * A thread is looked at when it has used a period of CPU time since it was last, and runs: so one
 * that sleeps is left alone, and time is charged to code that ran, not to the call that the thread
 * has gone to sleep in since. What it used beyond whole periods is carried to the next sample.
 */
#include "daemon/clock/outside.h"

#include "daemon/clock/clock.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)
#define POLL_MIN_NS (1 * MS)
#define POLL_MAX_NS (20 * MS) /* of a thread that does not run */

struct stop_thread {
	pid_t tid;
	struct kp_proc_sched sched; /* as it was found last */
	uint64_t sampled_cpu_ns; /* CPU time up to which it is in samples */
	uint64_t changed_ns; /* when sched was found so for the first time */
	uint64_t due_ns;
	uint64_t pause_ns; /* until it is asked again, if it does not run */
	bool asked;
	bool barren; /* the last look found less than a period, and nothing has changed since */
};

struct stop_clock {
	struct kp_clock base;
	struct kp_outside outside;
	struct stop_thread *thread;
	size_t count, room;
};

static struct stop_clock *of(struct kp_clock *clock)
{
	return (struct stop_clock *)clock;
}

static struct stop_thread *find(const struct stop_clock *c, pid_t tid)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->thread[i].tid == tid)
			return &c->thread[i];
	return NULL;
}

static struct stop_thread *add(struct stop_clock *c)
{
	if (c->count == c->room) {
		size_t room = c->room ? c->room * 2 : 16;
		struct stop_thread *grown = reallocarray(c->thread, room, sizeof(*grown));

		if (!grown)
			return NULL;
		c->thread = grown;
		c->room = room;
	}
	return &c->thread[c->count++];
}

static int arm(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err)
{
	struct stop_clock *c = of(clock);
	struct kp_proc_sched sched;
	struct stop_thread *thread;
	uint64_t now = c->outside.ops->now_ns(c->outside.ctx);
	uint64_t head_start;

	(void)ns_tid;
	if (!c->outside.ops->sched(c->outside.ctx, tid, &sched))
		return kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid);
	thread = add(c);
	if (!thread)
		return kp_fail_nomem(err);
	*thread = (struct stop_thread){ .tid = tid,
					.sched = sched,
					.changed_ns = now,
					.due_ns = now,
					.pause_ns = POLL_MIN_NS };
	/* As a timer's first expiration: anywhere in the period. */
	head_start = clock->period_ns - kp_timer_clock_first(clock->period_ns);
	thread->sampled_cpu_ns = sched.cpu_ns > head_start ? sched.cpu_ns - head_start : 0;
	clock->armed++;
	return 0;
}

static void forget(struct kp_clock *clock, pid_t tid)
{
	struct stop_clock *c = of(clock);
	struct stop_thread *thread = find(c, tid);

	if (thread)
		*thread = c->thread[--c->count];
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct stop_clock *c = (const struct stop_clock *)clock;
	const struct stop_thread *thread = origin <= INT32_MAX ? find(c, (pid_t)origin) : NULL;

	return thread ? thread->tid : 0;
}

/*
 * CPU time that the thread has used by now. While it is on a CPU the kernel's figure stands still
 * between two ticks; but when it is taken off, the figure is brought up to date. So if it has
 * not changed since, the thread has run all the time. Or it has waited for a CPU all the time: then a
 * look finds it out, and the next one waits for the figure to move.
 */
static uint64_t cpu_by_now(const struct stop_thread *thread, uint64_t now)
{
	return thread->sched.cpu_ns + (thread->barren ? 0 : now - thread->changed_ns);
}

static void take_sched(struct stop_thread *thread, const struct kp_proc_sched *sched, uint64_t now)
{
	if (sched->cpu_ns == thread->sched.cpu_ns && sched->runs == thread->sched.runs)
		return;
	thread->sched = *sched;
	thread->changed_ns = now;
	thread->pause_ns = POLL_MIN_NS;
	thread->barren = false;
}

static bool update(struct stop_clock *c, struct stop_thread *thread, uint64_t now)
{
	struct kp_proc_sched sched;

	if (!c->outside.ops->sched(c->outside.ctx, thread->tid, &sched))
		return false;
	take_sched(thread, &sched, now);
	return true;
}

static bool is_running(const struct stop_clock *c, pid_t tid)
{
	struct kp_thread_where where;

	c->outside.ops->where(c->outside.ctx, tid, &where);
	return where.place == KP_PLACE_RUNNING;
}

/* It does not run: less and less often, until it does; and not in step with what it does. */
static void pause_longer(struct stop_thread *thread, uint64_t now)
{
	thread->due_ns = now + thread->pause_ns / 2 + kp_timer_clock_first(thread->pause_ns);
	thread->pause_ns = thread->pause_ns * 2 < POLL_MAX_NS ? thread->pause_ns * 2 : POLL_MAX_NS;
}

/* When it will have used up its period if it goes on running. */
static void until_period(const struct stop_clock *c, struct stop_thread *thread, uint64_t now,
			 uint64_t used)
{
	uint64_t wait = used < c->base.period_ns ? c->base.period_ns - used : 0;

	thread->due_ns = now + (wait > POLL_MIN_NS ? wait : POLL_MIN_NS);
}

static void serve_thread(struct stop_clock *c, struct stop_thread *thread, uint64_t now)
{
	uint64_t used;

	if (thread->asked || now < thread->due_ns)
		return;
	if (!update(c, thread, now) || !is_running(c, thread->tid)) {
		pause_longer(thread, now);
		return;
	}
	used = cpu_by_now(thread, now) - thread->sampled_cpu_ns;
	until_period(c, thread, now, used);
	if (used < c->base.period_ns)
		return;
	switch (c->outside.ops->ask(c->outside.ctx, &c->base, thread->tid)) {
	case KP_ASK_DONE:
		thread->asked = true;
		break;
	case KP_ASK_LATER:
		thread->due_ns = now + POLL_MIN_NS;
		break;
	case KP_ASK_NEVER:
		thread->due_ns = now + POLL_MAX_NS;
		break;
	}
}

static void serve(struct kp_clock *clock)
{
	struct stop_clock *c = of(clock);
	uint64_t now = c->outside.ops->now_ns(c->outside.ctx);

	for (size_t i = 0; i < c->count; i++)
		serve_thread(c, &c->thread[i], now);
}

/*
 * Whether the thread was at work when it was asked to stop. One that had just woken up, and waited for
 * a CPU, stops in the call that it slept in, which is not where it has spent its CPU time. It shows
 * in that it has got a CPU since. One that was taken off its CPU in user mode has as well, as it is
 * when there is only one, which kitprof needs itself to look; it is where it was.
 */
static bool was_at_work(const struct stop_thread *thread, const struct kp_sight *sight)
{
	return !sight->in_call || sight->sched.runs == thread->sched.runs;
}

void kp_stop_clock_seen(struct kp_clock *clock, pid_t tid, const struct kp_sight *sight)
{
	struct stop_clock *c = of(clock);
	struct stop_thread *thread = find(c, tid);
	uint64_t now = c->outside.ops->now_ns(c->outside.ctx);
	uint64_t periods, used;
	bool good;

	if (!thread)
		return;
	thread->asked = false;
	if (!sight)
		return;
	good = was_at_work(thread, sight);
	take_sched(thread, &sight->sched, now);
	used = sight->sched.cpu_ns > thread->sampled_cpu_ns
		       ? sight->sched.cpu_ns - thread->sampled_cpu_ns
		       : 0;
	periods = used / clock->period_ns;
	if (periods > UINT32_MAX)
		periods = UINT32_MAX;
	thread->barren = !periods;
	if (!periods || !good) {
		thread->due_ns = now + POLL_MIN_NS;
		return;
	}
	thread->sampled_cpu_ns += periods * clock->period_ns;
	until_period(c, thread, now, used - periods * clock->period_ns);
	c->outside.ops->put(c->outside.ctx, clock, tid, (uint32_t)periods - 1, sight);
}

uint64_t kp_stop_clock_due_ns(const struct kp_clock *clock)
{
	const struct stop_clock *c = (const struct stop_clock *)clock;
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < c->count; i++)
		if (!c->thread[i].asked && c->thread[i].due_ns < due)
			due = c->thread[i].due_ns;
	return due;
}

/* Nothing of it runs in between. */
static void stop(struct kp_clock *clock)
{
	(void)clock;
}

static void destroy(struct kp_clock *clock)
{
	free(of(clock)->thread);
	free(clock);
}

static const struct kp_clock_ops stop_clock_ops = {
	.name = "stop",
	.source = KP_SOURCE_STOP,
	.arm = arm,
	.forget = forget,
	.owner = owner,
	.serve = serve,
	.stop = stop,
	.destroy = destroy,
};

int kp_stop_clock_create(const struct kp_outside *outside, uint64_t period_ns,
			 struct kp_clock **ret, struct kp_err *err)
{
	struct stop_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &stop_clock_ops;
	c->base.period_ns = period_ns;
	c->base.kernel = 1;
	c->outside = *outside;
	*ret = &c->base;
	return 0;
}
