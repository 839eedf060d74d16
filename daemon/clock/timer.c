/*
 * The CPU timer clock: clock.h. Runs in the daemon; the timers themselves are created by the agent
 * (agent/clock.c), asked for by mail in the shared head.
 *
 * A request is worked off by the next handler that runs in the target. Where none runs (all armed
 * threads sleep), kp_timer_clock_stuck() tells the session, which has it worked off in a stop.
 */
#include "daemon/clock/clock.h"
#include "daemon/clock/thread_table.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "proto/mailbox.h"

#include <stdlib.h>
#include <sys/random.h>

struct timer_clock {
	struct kp_clock base;
	struct kp_thread_table threads;
	struct kp_shm_head *head;
	pid_t pid;
	uint32_t ns_pid; /* the process, which shall make the timers, in its own pid namespace */
};

uint64_t kp_timer_clock_first(uint64_t period_ns)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = kp_now_ns();
	return 1 + random % period_ns;
}

static void post_arm(struct timer_clock *c, struct kp_clock_thread *thread)
{
	struct kp_mail mail = { .op = KP_MAIL_ARM,
				.pid = c->ns_pid,
				.tid = (uint32_t)thread->ns_tid,
				.first_ns = kp_timer_clock_first(c->base.period_ns) };
	uint32_t slot = kp_mailbox_post(c->head, &mail);

	if (slot == KP_MAILBOX_NONE)
		return; /* it is WAITING, and tried again */
	thread->slot = slot;
	thread->asked_ns = kp_now_ns();
	thread->state = KP_THREAD_POSTED;
	if (!kp_proc_thread_cpu_ns(c->pid, thread->tid, &thread->cpu_ns))
		thread->cpu_ns = UINT64_MAX;
}

static void settle(struct timer_clock *c, struct kp_clock_thread *thread,
		   const struct kp_mail *mail)
{
	if (mail->result < 0) {
		thread->state = KP_THREAD_FAILED;
		c->base.failed++;
	} else {
		thread->state = KP_THREAD_ARMED;
		thread->timer_id = mail->timer_id;
		if (!kp_proc_thread_cpu_ns(c->pid, thread->tid, &thread->cpu_ns))
			thread->cpu_ns = UINT64_MAX;
		c->base.armed++;
	}
}

static int arm(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err)
{
	struct timer_clock *c = (struct timer_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_add(&c->threads);

	if (!thread)
		return kp_fail_nomem(err);
	thread->tid = tid;
	thread->ns_tid = ns_tid;
	thread->state = KP_THREAD_WAITING;
	post_arm(c, thread);
	return 0;
}

/*
 * Its entry becomes the keeper of the request's slot, until that is done and the slot free again.
 * Where no slot is free a dead thread's timer stays; one whose thread lives on is tried again.
 */
static void post_disarm(struct timer_clock *c, struct kp_clock_thread *thread)
{
	struct kp_mail mail = { .op = KP_MAIL_DISARM,
				.pid = c->ns_pid,
				.tid = (uint32_t)thread->ns_tid,
				.timer_id = thread->timer_id };
	uint32_t slot = kp_mailbox_post(c->head, &mail);

	if (slot == KP_MAILBOX_NONE) {
		if (!thread->released)
			kp_thread_table_remove(&c->threads, thread);
		return;
	}
	thread->slot = slot;
	thread->asked_ns = kp_now_ns();
	thread->state = KP_THREAD_LEAVING;
}

/*
 * A dead thread's timer stays in the target until it is deleted, and counts against its limits. One
 * whose arming nobody has begun is not armed; one that is being armed is looked at again.
 */
static void forget(struct kp_clock *clock, pid_t tid)
{
	struct timer_clock *c = (struct timer_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	thread->tid = 0; /* the number may be another thread's now */
	if (thread->state == KP_THREAD_ARMED)
		post_disarm(c, thread);
	else if (thread->state != KP_THREAD_POSTED || kp_mailbox_retract(c->head, thread->slot))
		kp_thread_table_remove(&c->threads, thread);
}

/* A timer that is still being made is deleted when that is done, as that of a dead thread is. */
static void release(struct kp_clock *clock, pid_t tid)
{
	struct timer_clock *c = (struct timer_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	clock->failed -= thread->state == KP_THREAD_FAILED;
	thread->released = true;
	forget(clock, tid);
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		if ((uint32_t)c->threads.thread[i].ns_tid == origin && c->threads.thread[i].tid)
			return c->threads.thread[i].tid;
	return 0;
}

/* Takes the result of a request. False: the entry is gone, and another has its place. */
static bool serve_thread(struct timer_clock *c, struct kp_clock_thread *thread)
{
	struct kp_mail mail;

	if (thread->state == KP_THREAD_WAITING)
		post_arm(c, thread);
	if (thread->state == KP_THREAD_ARMED && !thread->tid)
		post_disarm(c, thread);
	if (thread->state != KP_THREAD_POSTED && thread->state != KP_THREAD_LEAVING)
		return true;
	if (!kp_mailbox_collect(c->head, thread->slot, &mail))
		return true;
	if (thread->state == KP_THREAD_POSTED)
		settle(c, thread, &mail);
	if (thread->tid)
		return true;
	/* The thread has ended: its timer goes too, then its entry. */
	if (thread->state == KP_THREAD_ARMED) {
		size_t count = c->threads.count;

		post_disarm(c, thread);
		return c->threads.count == count;
	}
	kp_thread_table_remove(&c->threads, thread);
	return false;
}

static void serve(struct kp_clock *clock)
{
	struct timer_clock *c = (struct timer_clock *)clock;

	for (size_t i = 0; i < c->threads.count;)
		i += serve_thread(c, &c->threads.thread[i]);
}

/* The timers are the target's; head->on is 0 by now and they delete themselves, or kp_remove() does. */
static void stop(struct kp_clock *clock)
{
	(void)clock;
}

static void destroy(struct kp_clock *clock)
{
	struct timer_clock *c = (struct timer_clock *)clock;
	struct kp_mail mail;

	/* The box may be shared with processes that are sampled on: nothing is left in it. */
	for (size_t i = 0; i < c->threads.count; i++) {
		struct kp_clock_thread *thread = &c->threads.thread[i];

		if ((thread->state == KP_THREAD_POSTED || thread->state == KP_THREAD_LEAVING) &&
		    !kp_mailbox_retract(c->head, thread->slot))
			kp_mailbox_collect(c->head, thread->slot, &mail);
	}
	kp_thread_table_deinit(&c->threads);
	free(c);
}

static const struct kp_clock_ops timer_clock_ops = {
	.name = "cpu-timer",
	.source = KP_SOURCE_TIMER,
	.arm = arm,
	.forget = forget,
	.release = release,
	.owner = owner,
	.serve = serve,
	.stop = stop,
	.destroy = destroy,
};

int kp_timer_clock_create(struct kp_shm_head *head, pid_t pid, pid_t ns_pid, uint64_t period_ns,
			  uint32_t kernel, struct kp_clock **ret, struct kp_err *err)
{
	struct timer_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &timer_clock_ops;
	c->base.period_ns = period_ns;
	c->base.kernel = kernel;
	c->head = head;
	c->pid = pid;
	c->ns_pid = (uint32_t)ns_pid;
	*ret = &c->base;
	return 0;
}

int kp_timer_clock_adopt(struct kp_clock *clock, const struct kp_mail *mail, const pid_t *tid,
			 size_t count, struct kp_err *err)
{
	struct timer_clock *c = (struct timer_clock *)clock;

	for (size_t i = 0; i < count; i++) {
		struct kp_clock_thread *thread = kp_thread_table_add(&c->threads);

		if (!thread)
			return kp_fail_nomem(err);
		thread->tid = tid[i];
		thread->ns_tid = (pid_t)mail[i].tid;
		settle(c, thread, &mail[i]);
	}
	return 0;
}

static bool is_stuck(const struct timer_clock *c, const struct kp_clock_thread *thread,
		     uint64_t patience_ns)
{
	uint64_t cpu_ns;

	if (kp_now_ns() - thread->asked_ns < patience_ns)
		return false;
	if (thread->state != KP_THREAD_POSTED)
		return thread->state == KP_THREAD_LEAVING && thread->released;
	return kp_proc_thread_cpu_ns(c->pid, thread->tid, &cpu_ns) && thread->cpu_ns < cpu_ns &&
	       cpu_ns - thread->cpu_ns > patience_ns;
}

size_t kp_timer_clock_stuck(const struct kp_clock *clock, uint64_t patience_ms)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;
	size_t stuck = 0;

	for (size_t i = 0; i < c->threads.count; i++)
		stuck += is_stuck(c, &c->threads.thread[i], patience_ms * 1000000);
	return stuck;
}

bool kp_timer_clock_armed_at(const struct kp_clock *clock, pid_t tid, uint64_t *ret_ns)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;
	const struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread || thread->state != KP_THREAD_ARMED)
		return false;
	*ret_ns = thread->cpu_ns;
	return true;
}

bool kp_timer_clock_is_settled(const struct kp_clock *clock, pid_t tid)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;
	const struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	return !thread || thread->state == KP_THREAD_ARMED || thread->state == KP_THREAD_FAILED;
}
