/*
 * Threads that are sampled from outside: outsiders.h. Daemon, session loop.
 *
 * A thread that blocks the signal shows in that it uses CPU time and no sample comes. So it is only
 * looked for when there is such time in the process, and taken for one when it has blocked the signal
 * at several looks, used CPU time in between, and not been sampled: a thread that blocks signals now
 * and then has its samples when it ends that, and none of them is lost.
 *
 * Its own clocks are stopped then. If they ran on, the kernel would keep their signal, and charge all
 * the time to wherever the thread ends its blocking.
 */
#include "daemon/session/outsiders.h"

#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/session/attachment.h"
#include "daemon/session/lookout.h"

#include <stdlib.h>
#include <sys/uio.h>

#define MS UINT64_C(1000000)
#define CHECK_NS (50 * MS) /* between two looks at masks */
#define CHECKS_MAX 32 /* blockers and suspects whose mask is read at one time */
#define SCANS_MAX 128 /* other threads */
#define SUSPECTED_NS (2000 * MS) /* until a suspect is cleared that uses no CPU time */
#define CPU_MIN_NS (10 * MS) /* in no sample */
#define FREE_LOOKS 2 /* that find a blocker not blocking, in a row: it is none any more */
#define SAID_MAX 5

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
	struct {
		struct kp_ring_record record;
		uint64_t pc[KP_DEPTH_MAX];
	} room = { .record = { .origin = (uint32_t)tid,
			       .overrun = overrun,
			       .depth = sight->depth,
			       .source = (uint8_t)clock->ops->source,
			       .walk_end = sight->walk_end,
			       .how = sight->how } };

	for (uint16_t i = 0; i < sight->depth; i++)
		room.pc[i] = sight->pc[i];
	kp_drain_put(&a->memory->drain, &room.record, kp_attachment_elapsed_ns(a), NULL);
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

/* CPU time that a sample of the attachment's own clocks stands for. */
static uint64_t cpu_period_ns(const struct kp_attachment *a)
{
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
		r = kp_stop_clock_create(&outside,
					 at_least(cpu_period_ns(a), KP_OUTSIDE_PERIOD_MIN_NS),
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
	free(o->blocker);
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

/* ---- blockers ---- */

static struct kp_blocker *find(const struct kp_outsiders *o, pid_t tid)
{
	for (size_t i = 0; i < o->count; i++)
		if (o->blocker[i].tid == tid)
			return &o->blocker[i];
	return NULL;
}

static void drop(struct kp_outsiders *o, struct kp_blocker *blocker)
{
	*blocker = o->blocker[--o->count];
}

void kp_outsiders_forget(struct kp_outsiders *o, pid_t tid)
{
	struct kp_blocker *blocker = find(o, tid);

	if (blocker)
		drop(o, blocker);
	if (o->stops)
		o->stops->ops->forget(o->stops, tid);
	if (o->waits)
		o->waits->ops->forget(o->waits, tid);
}

static bool blocks(const struct kp_outsiders *o, uint64_t mask)
{
	return mask & kp_signal_bit(o->attachment->memory->signal);
}

static bool is_blocking(const struct kp_outsiders *o, pid_t tid)
{
	struct kp_proc_status status;

	return kp_proc_status(pid_of(o), tid, &status, NULL) == 0 && blocks(o, status.sig_blocked);
}

static void suspect(struct kp_outsiders *o, const struct kp_thread *thread, uint64_t now)
{
	struct kp_blocker *blocker;
	uint64_t cpu_ns;

	if (!kp_proc_thread_cpu_ns(pid_of(o), thread->tid, &cpu_ns))
		return;
	if (o->count == o->room) {
		size_t room = o->room ? o->room * 2 : 16;
		struct kp_blocker *grown = reallocarray(o->blocker, room, sizeof(*grown));

		if (!grown)
			return; /* it is seen again */
		o->blocker = grown;
		o->room = room;
	}
	blocker = &o->blocker[o->count++];
	*blocker = (struct kp_blocker){ .tid = thread->tid,
					.since_ns = now,
					.cpu_ns = cpu_ns,
					.sampled_ns = thread->sampled_ns };
}

static void say_blocker(struct kp_outsiders *o, const struct kp_thread *thread)
{
	uint32_t *said = &o->attachment->plan->blockers_said;

	if (++*said <= SAID_MAX)
		kp_lookout_say(o->lookout, "thread %s (tid %d) blocks the sampling signal: %s",
			       thread->comm, (int)thread->tid,
			       o->stops ? "it is sampled in short stops instead"
					: "it is not sampled (--no-ptrace-fallback)");
	if (*said == SAID_MAX)
		kp_lookout_say(o->lookout, "further threads that block it are not named");
}

/* Its own clocks are stopped, and it is looked at instead. */
static int take_over(struct kp_outsiders *o, struct kp_thread *thread, struct kp_err *err)
{
	struct kp_attachment *a = o->attachment;
	int r = 0;

	thread->blocks = true;
	say_blocker(o, thread);
	if (!o->stops)
		return 0;
	if (!o->listed)
		r = kp_attachment_put_clock(a, o->stops, err);
	o->listed = true;
	if (o->stops->period_ns > cpu_period_ns(a))
		kp_lookout_clamp(o->lookout, KP_CLAMPED_RATE,
				 "threads that block the sampling signal are sampled at 1000 Hz at "
				 "most: each sample stops them");
	thread->stopped = o->stops->ops->arm(o->stops, thread->tid, thread->ns_tid, NULL) == 0;
	if (thread->stopped)
		kp_attachment_release(a, thread);
	return r;
}

static void give_back(struct kp_outsiders *o, struct kp_thread *thread)
{
	thread->blocks = false;
	if (!o->stops || !o->stops->ops->owner(o->stops, (uint32_t)thread->tid))
		return;
	o->stops->ops->forget(o->stops, thread->tid);
	kp_attachment_take_back(o->attachment, thread);
}

/* CPU time for which samples should have come. */
static uint64_t proof_ns(const struct kp_outsiders *o)
{
	return at_least(2 * cpu_period_ns(o->attachment), CPU_MIN_NS);
}

/* What a look has found; true: it is suspected, or proven, still. */
static bool judge(struct kp_outsiders *o, struct kp_blocker *blocker, struct kp_thread *thread,
		  bool is_blocked, uint64_t now, struct kp_err *err, int *ret)
{
	uint64_t cpu_ns;

	if (blocker->proven) {
		blocker->free = is_blocked ? 0 : blocker->free + 1;
		if (blocker->free < FREE_LOOKS)
			return true;
		give_back(o, thread);
		return false;
	}
	if (!is_blocked || thread->sampled_ns != blocker->sampled_ns)
		return false;
	if (!kp_proc_thread_cpu_ns(pid_of(o), blocker->tid, &cpu_ns))
		return false;
	if (cpu_ns - blocker->cpu_ns < proof_ns(o))
		return now - blocker->since_ns < SUSPECTED_NS + 2 * proof_ns(o);
	blocker->proven = true;
	*ret = take_over(o, thread, err);
	return true;
}

static int check_blockers(struct kp_outsiders *o, uint64_t now, struct kp_err *err)
{
	size_t checks = o->count < CHECKS_MAX ? o->count : CHECKS_MAX;
	int r = 0;

	for (; checks && r == 0; checks--) {
		size_t i = o->next_check < o->count ? o->next_check : 0;
		struct kp_blocker *blocker = &o->blocker[i];
		struct kp_thread *thread = kp_threads_find(&o->attachment->threads, blocker->tid);

		if (thread && judge(o, blocker, thread, is_blocking(o, blocker->tid), now, err, &r))
			o->next_check = i + 1;
		else
			drop(o, blocker);
	}
	return r;
}

/* CPU time is missing: some threads that are under no suspicion yet are asked. */
static void look_for_blockers(struct kp_outsiders *o, uint64_t now)
{
	const struct kp_threads *threads = &o->attachment->threads;
	size_t scans = threads->count < SCANS_MAX ? threads->count : SCANS_MAX;

	for (; scans; scans--) {
		size_t i = o->next < threads->count ? o->next : 0;
		const struct kp_thread *thread = &threads->thread[i];

		o->next = i + 1;
		if (!find(o, thread->tid) && is_blocking(o, thread->tid))
			suspect(o, thread, now);
	}
}

/* Whether there is more CPU time in no sample than before. */
static bool is_time_missing(struct kp_outsiders *o)
{
	uint64_t cpu_ns, unexplained_ns;

	if (!kp_proc_cpu_ns(pid_of(o), &cpu_ns))
		return false;
	unexplained_ns =
		cpu_ns > o->attachment->explained_ns ? cpu_ns - o->attachment->explained_ns : 0;
	if (unexplained_ns < o->unexplained_ns)
		o->unexplained_ns = unexplained_ns;
	if (unexplained_ns - o->unexplained_ns < proof_ns(o))
		return false;
	o->unexplained_ns = unexplained_ns;
	return true;
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
	if (!o->lookout || now - o->checked_ns < CHECK_NS)
		return 0;
	o->checked_ns = now;
	follow_tables(o);
	if (is_time_missing(o))
		look_for_blockers(o, now);
	return check_blockers(o, now, err);
}

void kp_outsiders_seen(struct kp_outsiders *o, struct kp_clock *clock, pid_t tid,
		       const struct kp_sight *sight)
{
	if (clock == o->stops)
		kp_stop_clock_seen(clock, tid, sight);
	else
		kp_wait_clock_seen(clock, tid, sight);
}
