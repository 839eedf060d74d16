/*
 * Threads that block the sampling signal: blockers.h. Daemon, session loop.
 *
 * One shows in that it uses CPU time and no sample comes. So threads are asked when there is such
 * time in the process, and one is taken for a blocker when it has blocked the signal at several
 * looks, used CPU time in between, and not been sampled: a thread that blocks signals now and then
 * has its samples when it ends that, and none of them is lost.
 *
 * A blocker's own clocks are stopped. If they ran on, the kernel would keep their signal, and charge
 * all the time to wherever the thread ends its blocking.
 *
 * A thread that waits for signals (sigwait) would take ours for one of those that it waits for. Its
 * clocks are stopped as soon as it is seen, whether it uses CPU time or not.
 */
#include "daemon/session/blockers.h"

#include "daemon/linux/proc.h"
#include "daemon/session/attachment.h"
#include "daemon/session/lookout.h"
#include "daemon/session/outsiders.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MS UINT64_C(1000000)
#define CHECK_NS (50 * MS) /* between two looks at masks */
#define CHECKS_MAX 32 /* blockers and suspects whose mask is read at one time */
#define SCANS_MAX 64 /* other threads */
#define SCAN_NS (1000 * MS) /* between two such, if nothing seems to be missing */
#define YOUNG_SCAN_NS (100 * MS) /* in a program's first second, when it arranges its signals */
#define YOUNG_NS (1000 * MS)
#define PATIENCE_MAX_NS (160 * MS)
#define SUSPECTED_NS (2000 * MS) /* until a suspect is cleared that uses no CPU time */
#define CPU_MIN_NS (10 * MS) /* in no sample, to prove a suspicion */
#define FREE_LOOKS 2 /* that find a blocker not blocking, in a row: it is none any more */
#define SAID_MAX 5

static pid_t pid_of(const struct kp_outsiders *o)
{
	return o->attachment->target.pid;
}

static uint64_t signal_bit(const struct kp_outsiders *o)
{
	return kp_signal_bit(o->attachment->memory->signal);
}

/* ---- the table ---- */

void kp_blockers_deinit(struct kp_blockers *b)
{
	free(b->blocker);
	*b = (struct kp_blockers){ 0 };
}

static struct kp_blocker *find(const struct kp_blockers *b, pid_t tid)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->blocker[i].tid == tid)
			return &b->blocker[i];
	return NULL;
}

static void drop(struct kp_blockers *b, struct kp_blocker *blocker)
{
	*blocker = b->blocker[--b->count];
}

void kp_blockers_forget(struct kp_blockers *b, pid_t tid)
{
	struct kp_blocker *blocker = find(b, tid);

	if (blocker)
		drop(b, blocker);
}

/* NULL: out of memory; it is seen again. */
static struct kp_blocker *add(struct kp_blockers *b)
{
	if (b->count == b->room) {
		size_t room = b->room ? b->room * 2 : 16;
		struct kp_blocker *grown = reallocarray(b->blocker, room, sizeof(*grown));

		if (!grown)
			return NULL;
		b->blocker = grown;
		b->room = room;
	}
	return &b->blocker[b->count++];
}

/* ---- looks ---- */

/* Whether it waits for the sampling signal among others: rt_sigtimedwait(2), the set first. */
static bool waits_for_signal(const struct kp_outsiders *o, pid_t tid)
{
	struct kp_thread_where where;
	uint64_t set;
	struct iovec local = { &set, sizeof(set) }, remote;

	kp_proc_where(pid_of(o), tid, &where);
	if (where.place != KP_PLACE_SYSCALL || where.nr != SYS_rt_sigtimedwait)
		return false;
	remote = (struct iovec){ (void *)(uintptr_t)where.arg, sizeof(set) };
	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(set) &&
	       set & signal_bit(o);
}

/* While a thread waits for signals the kernel shows them as not blocked. */
static bool is_blocking(const struct kp_outsiders *o, pid_t tid)
{
	struct kp_proc_status status;

	if (kp_proc_status(pid_of(o), tid, &status, NULL) < 0)
		return false;
	return status.sig_blocked & signal_bit(o) ||
	       (status.state == 'S' && waits_for_signal(o, tid));
}

/* CPU time for which samples should have come. */
static uint64_t proof_ns(const struct kp_outsiders *o)
{
	uint64_t two = 2 * kp_outsiders_cpu_period_ns(o);

	return two > CPU_MIN_NS ? two : CPU_MIN_NS;
}

static void say_blocker(const struct kp_outsiders *o, const struct kp_thread *thread)
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

/* Where it cannot be sampled otherwise its clocks stay, for when it ends its blocking. */
static int prove(struct kp_outsiders *o, struct kp_blocker *blocker, struct kp_thread *thread,
		 struct kp_err *err)
{
	blocker->proven = true;
	thread->blocks = true;
	say_blocker(o, thread);
	if (blocker->released || !o->stops)
		return 0;
	blocker->released = true;
	return kp_outsiders_take_over(o, thread, err);
}

static void acquit(struct kp_outsiders *o, const struct kp_blocker *blocker,
		   struct kp_thread *thread)
{
	thread->blocks = false;
	if (blocker->released)
		kp_outsiders_give_back(o, thread);
}

/* Whether what a look has found leaves it a blocker, or suspected; *ret: an error on the way. */
static bool judge(struct kp_outsiders *o, struct kp_blocker *blocker, struct kp_thread *thread,
		  uint64_t now, int *ret, struct kp_err *err)
{
	bool is_blocked = is_blocking(o, blocker->tid);
	uint64_t cpu_ns;

	if (blocker->proven || blocker->released) {
		blocker->free = is_blocked ? 0 : blocker->free + 1;
		if (blocker->free == FREE_LOOKS)
			return false;
	}
	if (blocker->proven)
		return true;
	if (!blocker->released && (!is_blocked || thread->sampled_ns != blocker->sampled_ns))
		return false;
	if (!kp_proc_thread_cpu_ns(pid_of(o), blocker->tid, &cpu_ns))
		return false;
	if (cpu_ns - blocker->cpu_ns >= proof_ns(o))
		*ret = prove(o, blocker, thread, err);
	return blocker->released || blocker->proven ||
	       now - blocker->since_ns < SUSPECTED_NS + 2 * proof_ns(o);
}

static int check_all(struct kp_blockers *b, struct kp_outsiders *o, uint64_t now,
		     struct kp_err *err)
{
	size_t checks = b->count < CHECKS_MAX ? b->count : CHECKS_MAX;
	int r = 0;

	for (; checks && r == 0; checks--) {
		size_t i = b->next_check < b->count ? b->next_check : 0;
		struct kp_blocker *blocker = &b->blocker[i];
		struct kp_thread *thread = kp_threads_find(&o->attachment->threads, blocker->tid);

		if (thread && judge(o, blocker, thread, now, &r, err)) {
			b->next_check = i + 1;
			continue;
		}
		if (thread)
			acquit(o, blocker, thread);
		drop(b, blocker);
	}
	return r;
}

/* ---- suspicion ---- */

/* *ret_error: from taking it over. */
static void suspect(struct kp_blockers *b, struct kp_outsiders *o, struct kp_thread *thread,
		    uint64_t now, int *ret_error, struct kp_err *err)
{
	struct kp_blocker *blocker;
	uint64_t cpu_ns;

	if (!kp_proc_thread_cpu_ns(pid_of(o), thread->tid, &cpu_ns))
		return;
	blocker = add(b);
	if (!blocker)
		return;
	*blocker = (struct kp_blocker){ .tid = thread->tid,
					.released = waits_for_signal(o, thread->tid),
					.since_ns = now,
					.cpu_ns = cpu_ns,
					.sampled_ns = thread->sampled_ns };
	if (blocker->released)
		*ret_error = kp_outsiders_take_over(o, thread, err);
}

/* Some of the threads that are under no suspicion yet are asked. */
static int scan(struct kp_blockers *b, struct kp_outsiders *o, uint64_t now, struct kp_err *err)
{
	const struct kp_threads *threads = &o->attachment->threads;
	size_t scans = threads->count < SCANS_MAX ? threads->count : SCANS_MAX, before = b->count;
	int r = 0;

	b->scanned_ns = now;
	for (; scans && r == 0; scans--) {
		size_t i = b->next_scan < threads->count ? b->next_scan : 0;
		struct kp_thread *thread = &threads->thread[i];

		b->next_scan = i + 1;
		if (!find(b, thread->tid) && is_blocking(o, thread->tid))
			suspect(b, o, thread, now, &r, err);
	}
	/* In vain: time is missing for other reasons, as it always is where pages are faulted in. */
	if (b->count > before)
		b->patience_ns = 0;
	else if (b->patience_ns < PATIENCE_MAX_NS)
		b->patience_ns = b->patience_ns * 2 + MS;
	return r;
}

/* Whether there is more CPU time in no sample than before. */
static bool is_time_missing(struct kp_blockers *b, const struct kp_outsiders *o)
{
	uint64_t explained_ns = o->attachment->explained_ns, cpu_ns, missing_ns;

	if (!kp_proc_cpu_ns(pid_of(o), &cpu_ns))
		return false;
	missing_ns = cpu_ns > explained_ns ? cpu_ns - explained_ns : 0;
	if (missing_ns < b->unexplained_ns)
		b->unexplained_ns = missing_ns;
	if (missing_ns - b->unexplained_ns < proof_ns(o) + b->patience_ns)
		return false;
	b->unexplained_ns = missing_ns;
	return true;
}

int kp_blockers_turn(struct kp_blockers *b, struct kp_outsiders *o, uint64_t now,
		     struct kp_err *err)
{
	bool young;
	int r = 0;

	if (now - b->checked_ns < CHECK_NS)
		return 0;
	b->checked_ns = now;
	young = now - o->attachment->attached_ns < YOUNG_NS;
	if (is_time_missing(b, o) || now - b->scanned_ns >= (young ? YOUNG_SCAN_NS : SCAN_NS))
		r = scan(b, o, now, err);
	return r < 0 ? r : check_all(b, o, now, err);
}
