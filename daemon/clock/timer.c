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

#include <stdlib.h>
#include <sys/random.h>

struct timer_clock {
	struct kp_clock base;
	struct kp_thread_table threads;
	struct kp_shm_head *head;
	uint32_t posted; /* our own count: the shared one can be scribbled over */
};

/* A first expiration anywhere in the period, so that short threads are not always missed. */
static uint64_t random_first(uint64_t period_ns)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = kp_now_ns();
	return 1 + random % period_ns;
}

static bool is_done(const struct timer_clock *c, uint32_t mail)
{
	uint32_t done = __atomic_load_n(&c->head->mail_done, __ATOMIC_ACQUIRE);

	return (int32_t)(done - mail) > 0;
}

/* Slots whose result has not been looked at must not be overwritten. */
static bool has_room(const struct timer_clock *c)
{
	for (size_t i = 0; i < c->threads.count; i++)
		if (c->threads.thread[i].state == KP_THREAD_POSTED &&
		    c->posted - c->threads.thread[i].mail >= KP_MAIL_SLOTS / 2)
			return false;
	return c->posted - __atomic_load_n(&c->head->mail_done, __ATOMIC_ACQUIRE) < KP_MAIL_SLOTS / 2;
}

static void post(struct timer_clock *c, const struct kp_mail *mail)
{
	c->posted = __atomic_load_n(&c->head->mail_posted, __ATOMIC_RELAXED);
	c->head->mail[c->posted % KP_MAIL_SLOTS] = *mail;
	c->posted++;
	/* Publishes the slot; pairs with the acquire load in the agent's mail loop. */
	__atomic_store_n(&c->head->mail_posted, c->posted, __ATOMIC_RELEASE);
}

static void post_arm(struct timer_clock *c, struct kp_clock_thread *thread)
{
	struct kp_mail mail = { .op = KP_MAIL_ARM,
				.tid = (uint32_t)thread->ns_tid,
				.first_ns = random_first(c->base.period_ns) };

	post(c, &mail);
	thread->mail = c->posted - 1;
	thread->asked_ns = kp_now_ns();
	thread->state = KP_THREAD_POSTED;
}

static void settle(struct timer_clock *c, struct kp_clock_thread *thread, const struct kp_mail *mail)
{
	if (mail->result < 0) {
		thread->state = KP_THREAD_FAILED;
		c->base.failed++;
	} else {
		thread->state = KP_THREAD_ARMED;
		thread->timer_id = mail->timer_id;
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
	if (has_room(c))
		post_arm(c, thread);
	return 0;
}

/* A dead thread's timer stays in the target until it is deleted, and counts against its limits. */
static void forget(struct kp_clock *clock, pid_t tid)
{
	struct timer_clock *c = (struct timer_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	if (thread->state == KP_THREAD_ARMED && has_room(c)) {
		struct kp_mail mail = { .op = KP_MAIL_DISARM,
					.tid = (uint32_t)thread->ns_tid,
					.timer_id = thread->timer_id };

		post(c, &mail);
	}
	kp_thread_table_remove(&c->threads, thread);
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		if ((uint32_t)c->threads.thread[i].ns_tid == origin)
			return c->threads.thread[i].tid;
	return 0;
}

static void serve(struct kp_clock *clock)
{
	struct timer_clock *c = (struct timer_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++) {
		struct kp_clock_thread *thread = &c->threads.thread[i];

		if (thread->state == KP_THREAD_POSTED && is_done(c, thread->mail)) {
			struct kp_mail mail = c->head->mail[thread->mail % KP_MAIL_SLOTS];

			settle(c, thread, &mail);
		}
	}
	for (size_t i = 0; i < c->threads.count && has_room(c); i++)
		if (c->threads.thread[i].state == KP_THREAD_WAITING)
			post_arm(c, &c->threads.thread[i]);
}

/* The timers are the target's; head->on is 0 by now and they delete themselves, or kp_remove() does. */
static void stop(struct kp_clock *clock)
{
	(void)clock;
}

static void destroy(struct kp_clock *clock)
{
	struct timer_clock *c = (struct timer_clock *)clock;

	kp_thread_table_deinit(&c->threads);
	free(c);
}

static const struct kp_clock_ops timer_clock_ops = {
	.name = "cpu-timer",
	.source = KP_SOURCE_TIMER,
	.arm = arm,
	.forget = forget,
	.owner = owner,
	.serve = serve,
	.stop = stop,
	.destroy = destroy,
};

int kp_timer_clock_create(struct kp_shm_head *head, uint64_t period_ns, uint32_t kernel,
			  struct kp_clock **ret, struct kp_err *err)
{
	struct timer_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &timer_clock_ops;
	c->base.period_ns = period_ns;
	c->base.kernel = kernel;
	c->head = head;
	c->posted = __atomic_load_n(&head->mail_posted, __ATOMIC_RELAXED);
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

size_t kp_timer_clock_stuck(const struct kp_clock *clock, uint64_t patience_ms)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;
	uint64_t now = kp_now_ns();
	size_t stuck = 0;

	for (size_t i = 0; i < c->threads.count; i++) {
		const struct kp_clock_thread *thread = &c->threads.thread[i];

		stuck += thread->state == KP_THREAD_POSTED &&
			 now - thread->asked_ns > patience_ms * 1000000;
	}
	return stuck;
}

bool kp_timer_clock_is_settled(const struct kp_clock *clock, pid_t tid)
{
	const struct timer_clock *c = (const struct timer_clock *)clock;
	const struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	return !thread || thread->state == KP_THREAD_ARMED || thread->state == KP_THREAD_FAILED;
}
