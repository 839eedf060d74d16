/*
 * Threads that are sampled from outside: outsiders.h. Daemon, session loop. Which threads block the
 * signal is found out in blockers.c.
 */
#include "daemon/session/outsiders.h"

#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/session/attachment.h"
#include "daemon/session/lookout.h"

#include <stdlib.h>
#include <sys/uio.h>

/* ---- the world, as the clocks see it ---- */

static pid_t pid_of(const struct kp_outsiders *o)
{
	return o->attachment->target.pid;
}

static uint64_t now_ns(void *ctx)
{
	(void)ctx;
	return kp_now_ns();
}

static bool sched(void *ctx, pid_t tid, struct kp_proc_sched *ret)
{
	return kp_proc_sched(pid_of(ctx), tid, ret);
}

static void where(void *ctx, pid_t tid, struct kp_thread_where *ret)
{
	kp_proc_where(pid_of(ctx), tid, ret);
}

static bool may_read(void *ctx)
{
	const struct kp_outsiders *o = ctx;

	return kp_lookout_may_read(o->lookout);
}

static enum kp_ask ask(void *ctx, struct kp_clock *clock, pid_t tid)
{
	struct kp_outsiders *o = ctx;

	return kp_lookout_ask(o->lookout, o, clock, tid);
}

static bool read_stack(void *ctx, pid_t tid, const struct kp_thread_where *where,
		       struct kp_sight *ret)
{
	struct kp_outsiders *o = ctx;

	return kp_lookout_read(o->lookout, o, tid, where, ret);
}

#define WORDS_AT_ONCE 64u

static bool are_unchanged(pid_t pid, const struct kp_sight_word *word, uint32_t count)
{
	uint64_t now[WORDS_AT_ONCE];
	struct iovec local = { now, count * sizeof(*now) }, remote[WORDS_AT_ONCE];

	for (uint32_t i = 0; i < count; i++)
		remote[i] = (struct iovec){ (void *)(uintptr_t)word[i].addr, sizeof(*now) };
	if (process_vm_readv(pid, &local, 1, remote, count, 0) != (ssize_t)local.iov_len)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (now[i] != word[i].value)
			return false;
	return true;
}

static bool unchanged(void *ctx, const struct kp_sight_word *word, uint32_t count)
{
	const struct kp_outsiders *o = ctx;
	/* Of a process whose main thread has ended, another one has the memory. */
	pid_t live = o->attachment->modules.live;

	for (uint32_t at = 0; at < count; at += WORDS_AT_ONCE) {
		uint32_t n = count - at < WORDS_AT_ONCE ? count - at : WORDS_AT_ONCE;

		if (!are_unchanged(live ? live : pid_of(o), word + at, n))
			return false;
	}
	return true;
}

static void put(void *ctx, struct kp_clock *clock, pid_t tid, uint32_t overrun,
		const struct kp_sight *sight)
{
	const struct kp_outsiders *o = ctx;
	struct kp_attachment *a = o->attachment;
	uint64_t room[sizeof(struct kp_ring_record) / 8 + KP_DEPTH_MAX];
	struct kp_ring_record *record = (struct kp_ring_record *)(void *)room;

	*record = (struct kp_ring_record){ .origin = (uint32_t)tid,
					   .overrun = overrun,
					   .depth = sight->depth,
					   .source = (uint8_t)clock->ops->source,
					   .walk_end = sight->walk_end,
					   .how = sight->how };
	for (uint16_t i = 0; i < sight->depth; i++)
		record->pc[i] = sight->pc[i];
	kp_drain_put(&a->memory->drain, record, kp_attachment_elapsed_ns(a), NULL);
}

static const struct kp_outside_ops world = {
	.now_ns = now_ns,
	.sched = sched,
	.where = where,
	.may_read = may_read,
	.read = read_stack,
	.ask = ask,
	.unchanged = unchanged,
	.put = put,
};

/* ---- clocks ---- */

static uint64_t at_least(uint64_t value, uint64_t min)
{
	return value > min ? value : min;
}

uint64_t kp_outsiders_cpu_period_ns(const struct kp_outsiders *o)
{
	const struct kp_attachment *a = o->attachment;

	return a->event ? a->event->period_ns : a->timer->period_ns;
}

int kp_outsiders_init(struct kp_outsiders *o, struct kp_attachment *a, struct kp_err *err)
{
	struct kp_outside outside = { &world, o };
	const struct kp_clock_plan *plan = &a->plan->clocks;
	int r;

	*o = (struct kp_outsiders){ .lookout = a->plan->lookout, .attachment = a };
	if (!o->lookout)
		return 0;
	r = kp_lookout_join(o->lookout, o, err);
	if (r == 0 && kp_lookout_may_stop(o->lookout))
		r = kp_stop_clock_create(
			&outside, at_least(kp_outsiders_cpu_period_ns(o), KP_OUTSIDE_PERIOD_MIN_NS),
			&o->stops, err);
	if (r == 0 && plan->wait_period_ns)
		r = kp_wait_clock_create(&outside, plan->wait_period_ns, &o->waits, err);
	return r == 0 && o->waits ? kp_attachment_put_clock(a, o->waits, err) : r;
}

void kp_outsiders_end(struct kp_outsiders *o)
{
	if (o->stops)
		o->stops->ops->stop(o->stops);
	if (o->waits)
		o->waits->ops->stop(o->waits);
}

void kp_outsiders_deinit(struct kp_outsiders *o)
{
	if (o->lookout)
		kp_lookout_leave(o->lookout, o);
	kp_clock_destroy(o->stops);
	kp_clock_destroy(o->waits);
	kp_blockers_deinit(&o->blockers);
	*o = (struct kp_outsiders){ 0 };
}

void kp_outsiders_arm(struct kp_outsiders *o, const struct kp_thread *thread)
{
	if (o->waits)
		o->waits->ops->arm(o->waits, thread->tid, thread->ns_tid, NULL);
}

uint64_t kp_outsiders_period(const struct kp_outsiders *o, uint8_t source)
{
	return source == KP_SOURCE_STOP ? o->stops->period_ns : o->waits->period_ns;
}

pid_t kp_outsiders_owner(const struct kp_outsiders *o, uint8_t source, uint32_t origin)
{
	const struct kp_clock *clock = source == KP_SOURCE_STOP ? o->stops : o->waits;

	return clock ? clock->ops->owner(clock, origin) : 0;
}

/* ---- threads ---- */

void kp_outsiders_forget(struct kp_outsiders *o, pid_t tid)
{
	kp_blockers_forget(&o->blockers, tid);
	if (o->stops)
		o->stops->ops->forget(o->stops, tid);
	if (o->waits)
		o->waits->ops->forget(o->waits, tid);
}

static void say_clamped(struct kp_outsiders *o)
{
	if (o->stops->period_ns > kp_outsiders_cpu_period_ns(o))
		kp_lookout_clamp(o->lookout, KP_CLAMPED_RATE,
				 "threads that block the sampling signal are sampled at 1000 Hz at "
				 "most: each sample stops them");
}

/* Of ours: it would be the first that a sigwait() takes, and be there for the next program. */
static bool has_signal_pending(const struct kp_outsiders *o, pid_t tid)
{
	struct kp_proc_status status;

	return kp_proc_status(pid_of(o), tid, &status, NULL) == 0 &&
	       status.sig_pending & kp_signal_bit(o->attachment->memory->signal);
}

int kp_outsiders_take_over(struct kp_outsiders *o, struct kp_thread *thread, struct kp_err *err)
{
	int r = 0;

	kp_attachment_release(o->attachment, thread);
	o->attachment->flush |= has_signal_pending(o, thread->tid);
	if (!o->stops)
		return 0;
	if (!o->listed)
		r = kp_attachment_put_clock(o->attachment, o->stops, err);
	o->listed = true;
	say_clamped(o);
	thread->stopped = o->stops->ops->arm(o->stops, thread->tid, thread->ns_tid, NULL) == 0;
	return r;
}

void kp_outsiders_give_back(struct kp_outsiders *o, struct kp_thread *thread)
{
	if (o->stops)
		o->stops->ops->forget(o->stops, thread->tid);
	kp_attachment_take_back(o->attachment, thread);
}

/* Tables have come: what was walked without is walked again. */
static void follow_tables(struct kp_outsiders *o)
{
	const struct kp_store *store = o->attachment->plan->store;
	uint64_t changes = store ? kp_store_changes(store) : 0;

	if (changes == o->table_changes)
		return;
	o->table_changes = changes;
	if (o->waits)
		kp_wait_clock_relearn(o->waits);
}

int kp_outsiders_turn(struct kp_outsiders *o, uint64_t now, struct kp_err *err)
{
	if (!o->lookout)
		return 0;
	follow_tables(o);
	return kp_blockers_turn(&o->blockers, o, now, err);
}

void kp_outsiders_seen(struct kp_outsiders *o, struct kp_clock *clock, pid_t tid,
		       const struct kp_sight *sight)
{
	if (clock == o->stops)
		kp_stop_clock_seen(clock, tid, sight);
	else
		kp_wait_clock_seen(clock, tid, sight);
}
