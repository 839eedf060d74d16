/* How long the threads of a process ran: tally.h. Daemon, session loop. */
#include "daemon/session/tally.h"

#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define PATIENCE_NS (30 * MS) /* for the kernel's word on a thread that is gone */
#define TICK_NS (10 * MS) /* schedstat of a thread that runs is late by a tick: 1 to 10 ms */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void kp_tally_init(struct kp_tally *tally, const struct kp_tally_book *book, pid_t pid, bool born)
{
	*tally = (struct kp_tally){ .book = book, .pid = pid, .born = born };
}

void kp_tally_deinit(struct kp_tally *tally)
{
	free(tally->thread);
	*tally = (struct kp_tally){ 0 };
}

/* ---- what is known ---- */

/* Adding to the task events may have been before, and what schedstat said then late. */
static void look_at_thread(const struct kp_tally *tally, struct kp_tally_thread *thread)
{
	struct kp_proc_sched sched;
	uint64_t cpu_ns, ran_ns;

	if (thread->gone_ns || !kp_proc_sched(tally->pid, thread->tid, &sched))
		return;
	cpu_ns = sched.cpu_ns;
	thread->delay_ns = sched.delay_ns;
	if (tally->book->events && kp_task_events_ran(tally->book->events, thread->tid, &ran_ns)) {
		thread->base_ns = greater(thread->base_ns, less(cpu_ns, ran_ns));
		cpu_ns = thread->base_ns + ran_ns;
	}
	thread->cpu_ns = greater(thread->cpu_ns, cpu_ns);
}

void kp_tally_look(struct kp_tally *tally)
{
	for (size_t i = 0; i < tally->count; i++)
		look_at_thread(tally, &tally->thread[i]);
}

struct kp_tally_thread *kp_tally_find(const struct kp_tally *tally, pid_t tid)
{
	for (size_t i = 0; i < tally->count; i++)
		if (tally->thread[i].tid == tid && !tally->thread[i].gone_ns)
			return &tally->thread[i];
	return NULL;
}

static struct kp_tally_thread *add(struct kp_tally *tally, pid_t tid, struct kp_err *err)
{
	uint64_t now = kp_now_ns();

	if (tally->count == tally->room) {
		size_t room = tally->room ? tally->room * 2 : 4;
		struct kp_tally_thread *grown = reallocarray(tally->thread, room, sizeof(*grown));

		if (!grown) {
			kp_fail_nomem(err);
			return NULL;
		}
		tally->thread = grown;
		tally->room = room;
	}
	tally->thread[tally->count] =
		(struct kp_tally_thread){ .tid = tid, .since_ns = now, .early_until_ns = now };
	return &tally->thread[tally->count++];
}

int kp_tally_meet(struct kp_tally *tally, pid_t tid, bool was_there, struct kp_err *err)
{
	struct kp_tally_thread *thread;

	if (kp_tally_find(tally, tid))
		return 0;
	thread = add(tally, tid, err);
	if (!thread)
		return -KP_ENOMEM;
	tally->book->sums->threads_seen++;
	if (!was_there || tally->born)
		return 0;
	look_at_thread(tally, thread);
	thread->start_ns = thread->cpu_ns;
	thread->delay_start_ns = thread->delay_ns;
	return 0;
}

void kp_tally_begin_early(struct kp_tally *tally, pid_t tid, bool since_birth)
{
	struct kp_tally_thread *thread = kp_tally_find(tally, tid);

	if (!thread)
		return;
	thread->early_until_ns = UINT64_MAX;
	thread->clocked |= since_birth;
}

void kp_tally_end_early(struct kp_tally *tally, pid_t tid)
{
	struct kp_tally_thread *thread = kp_tally_find(tally, tid);

	if (thread && thread->early_until_ns == UINT64_MAX)
		thread->early_until_ns = kp_now_ns();
}

bool kp_tally_is_early(const struct kp_tally *tally, pid_t tid)
{
	const struct kp_tally_thread *thread = kp_tally_find(tally, tid);

	return thread && thread->early_until_ns == UINT64_MAX;
}

void kp_tally_clocked_now(struct kp_tally *tally, pid_t tid)
{
	struct kp_tally_thread *thread = kp_tally_find(tally, tid);

	if (!thread || thread->clocked)
		return;
	look_at_thread(tally, thread);
	thread->armed_ns = thread->cpu_ns;
	thread->clocked = true;
}

void kp_tally_gone(struct kp_tally *tally, pid_t tid)
{
	struct kp_tally_thread *thread = kp_tally_find(tally, tid);

	if (thread)
		thread->gone_ns = kp_now_ns();
}

void kp_tally_gone_all(struct kp_tally *tally)
{
	for (size_t i = 0; i < tally->count; i++)
		if (!tally->thread[i].gone_ns)
			tally->thread[i].gone_ns = kp_now_ns();
}

/* Of two threads of one id the first one is meant, whose time is not known yet. */
struct kp_tally_thread *kp_tally_find_running(const struct kp_tally *tally, pid_t tid)
{
	for (size_t i = 0; i < tally->count; i++)
		if (tally->thread[i].tid == tid && !tally->thread[i].final)
			return &tally->thread[i];
	return NULL;
}

static struct kp_tally_thread *find_unfinished(const struct kp_tally *tally, pid_t tid)
{
	struct kp_tally_thread *running = kp_tally_find_running(tally, tid);

	return running ? running : kp_tally_find(tally, tid);
}

bool kp_tally_ran(struct kp_tally *tally, const struct kp_task_event *event)
{
	struct kp_tally_thread *thread = find_unfinished(tally, event->tid);
	uint64_t base_ns;

	if (!thread)
		return false;
	base_ns = event->since_birth ? 0 : thread->base_ns;
	thread->cpu_ns = base_ns + event->ran_ns;
	thread->final = true;
	return true;
}

uint64_t kp_tally_cpu_ns(const struct kp_tally *tally)
{
	uint64_t sum = tally->put_ns;

	for (size_t i = 0; i < tally->count; i++)
		sum += less(tally->thread[i].cpu_ns, tally->thread[i].start_ns);
	return sum;
}

/* ---- records ---- */

static uint64_t blind_ns(const struct kp_tally_thread *thread, uint64_t cpu_ns)
{
	uint64_t armed_ns = thread->armed_ns;

	if (!thread->clocked)
		return cpu_ns;
	if (thread->covered_ns)
		armed_ns = less(thread->cpu_ns, thread->covered_ns);
	armed_ns = less(armed_ns, thread->start_ns);
	return armed_ns < cpu_ns ? armed_ns : cpu_ns;
}

static int put(struct kp_tally *tally, const struct kp_tally_thread *thread, uint32_t flags,
	       struct kp_err *err)
{
	struct kp_raw_end *sums = tally->book->sums;
	struct kp_raw_tally record = {
		.pid = (uint32_t)tally->pid,
		.tid = (uint32_t)thread->tid,
		.cpu_ns = less(thread->cpu_ns, thread->start_ns),
		.delay_ns = less(thread->delay_ns, thread->delay_start_ns),
		.flags = thread->flags | flags,
	};

	if (record.flags & KP_TALLY_PRESENT && !thread->clocked &&
	    !(record.flags & KP_TALLY_BLOCKED))
		record.flags |= KP_TALLY_UNARMED;
	if (thread->final)
		record.flags |= KP_TALLY_ENDED;
	/* Less is known than its own event has counted. */
	if (!thread->final && thread->covered_ns > record.cpu_ns)
		record.cpu_ns = thread->covered_ns;
	record.blind_ns = blind_ns(thread, record.cpu_ns);
	tally->put_ns += record.cpu_ns;
	if (!thread->clocked && !(record.flags & ~(uint32_t)KP_TALLY_ENDED)) {
		sums->missed++;
		sums->missed_cpu_ns += record.cpu_ns;
	}
	return kp_raw_put_tally(tally->book->writer, &record, err);
}

static bool is_due(const struct kp_tally *tally, const struct kp_tally_thread *thread, uint64_t now)
{
	return thread->gone_ns &&
	       (thread->final || !tally->book->events || now - thread->gone_ns > PATIENCE_NS);
}

int kp_tally_put_gone(struct kp_tally *tally, struct kp_err *err)
{
	uint64_t now = kp_now_ns();
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < tally->count; i++) {
		if (r == 0 && is_due(tally, &tally->thread[i], now))
			r = put(tally, &tally->thread[i], 0, err);
		else
			tally->thread[kept++] = tally->thread[i];
	}
	tally->count = kept;
	return r;
}

bool kp_tally_is_waiting(const struct kp_tally *tally)
{
	for (size_t i = 0; i < tally->count; i++)
		if (tally->thread[i].gone_ns)
			return true;
	return false;
}

int kp_tally_put_all(struct kp_tally *tally, bool present, struct kp_err *err)
{
	int r = 0;

	kp_tally_look(tally);
	for (size_t i = 0; i < tally->count && r == 0; i++) {
		const struct kp_tally_thread *thread = &tally->thread[i];

		r = put(tally, thread,
			present && !thread->gone_ns && !thread->final ? KP_TALLY_PRESENT : 0, err);
	}
	tally->count = 0;
	return r;
}

/*
 * CPU time of a thread at its exec, from what is known later: it has run all the time since its part
 * began but for what it waited for a CPU; it has slept too, if schedstat knows of less.
 */
static uint64_t cpu_at_exec(const struct kp_tally_thread *thread, uint64_t exec_ns)
{
	uint64_t late_ns = less(kp_now_ns(), exec_ns);
	uint64_t waited_ns = less(thread->delay_ns, thread->delay_start_ns);
	uint64_t cpu_ns = thread->start_ns + less(less(exec_ns, thread->since_ns), waited_ns);
	uint64_t least_ns =
		greater(thread->start_ns + thread->covered_ns, less(thread->cpu_ns, late_ns));

	if (!exec_ns)
		return thread->cpu_ns;
	if (cpu_ns > thread->cpu_ns + TICK_NS)
		cpu_ns = thread->cpu_ns + TICK_NS;
	return greater(cpu_ns, least_ns);
}

int kp_tally_exec(struct kp_tally *tally, uint64_t exec_ns, struct kp_err *err)
{
	struct kp_tally_thread *main_thread = kp_tally_find(tally, tally->pid);
	struct kp_tally_thread next = { .tid = tally->pid, .since_ns = exec_ns };
	int r;

	kp_tally_look(tally);
	if (main_thread) {
		main_thread->cpu_ns = cpu_at_exec(main_thread, exec_ns);
		next.start_ns = main_thread->cpu_ns;
		next.clocked = main_thread->clocked && main_thread->early_until_ns == UINT64_MAX;
		next.base_ns = main_thread->base_ns;
		next.delay_start_ns = next.delay_ns = main_thread->delay_ns;
	}
	kp_tally_gone_all(tally);
	r = kp_tally_put_all(tally, false, err);
	if (r < 0)
		return r;
	main_thread = add(tally, tally->pid, err);
	if (!main_thread)
		return -KP_ENOMEM;
	*main_thread = next;
	return 0;
}

int kp_tally_put_stranger(const struct kp_tally_book *book, pid_t pid, pid_t tid, uint64_t cpu_ns,
			  struct kp_err *err)
{
	struct kp_raw_tally record = {
		.pid = (uint32_t)pid,
		.tid = (uint32_t)tid,
		.cpu_ns = cpu_ns,
		.blind_ns = cpu_ns,
		.flags = KP_TALLY_ENDED,
	};

	book->sums->threads_seen++;
	book->sums->missed++;
	book->sums->missed_cpu_ns += cpu_ns;
	return kp_raw_put_tally(book->writer, &record, err);
}
