/*
 * The processes of a session: family.h. Daemon, session loop. How they are followed is in follow.c,
 * what a turn does with each of them in turn.c.
 */
#include "daemon/session/family.h"

#include "daemon/session/crowd.h"
#include "daemon/session/follow.h"
#include "daemon/session/prepare.h"
#include "daemon/session/process.h"

#include "common/cleanup.h"
#include "daemon/linux/children.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEFTOVERS_MAX 4 /* one, unless a removal failed before */
#define TICKS_PER_S 100 /* USER_HZ: the same on all our CPUs */

void kp_family_init(struct kp_family *family, struct kp_attachment_plan *plan, bool follow,
		    kp_family_say_fn say, void *ctx)
{
	struct timespec now;

	*family = (struct kp_family){ .plan = plan, .follow = follow, .say = say, .ctx = ctx };
	family->book = (struct kp_tally_book){ plan->writer, plan->events, &family->sums };
	clock_gettime(CLOCK_BOOTTIME, &now);
	family->start_ticks = (uint64_t)now.tv_sec * TICKS_PER_S +
			      (uint64_t)now.tv_nsec / (1000000000 / TICKS_PER_S);
}

void kp_family_say(const struct kp_family *family, const char *fmt, ...)
{
	char line[640];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	family->say(family->ctx, line);
}

/* ---- the set ---- */

struct kp_process *kp_family_find(const struct kp_family *family, pid_t pid)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->process[i]->pid == pid && !family->process[i]->ended)
			return family->process[i];
	return NULL;
}

struct kp_process *kp_family_add(struct kp_family *family, pid_t pid, struct kp_err *err)
{
	struct kp_process *process;

	if (family->count == family->room) {
		size_t room = family->room ? family->room * 2 : 16;
		struct kp_process **grown = reallocarray(family->process, room, sizeof(*grown));

		if (!grown) {
			kp_fail_nomem(err);
			return NULL;
		}
		family->process = grown;
		family->room = room;
	}
	process = calloc(1, sizeof(*process));
	if (!process) {
		kp_fail_nomem(err);
		return NULL;
	}
	process->pid = pid;
	kp_tally_init(&process->tally, &family->book, pid, false);
	family->process[family->count++] = process;
	return process;
}

bool kp_family_is_target(const struct kp_family *family, const struct kp_process *process)
{
	return !family->crowd && process == family->process[0];
}

static void add_counts(struct kp_ring_counts *to, const struct kp_ring_counts *counts)
{
	to->taken += counts->taken;
	to->kept += counts->kept;
	to->dropped += counts->dropped;
	to->dropped_full += counts->dropped_full;
	to->dropped_cap += counts->dropped_cap;
	to->abandoned += counts->abandoned;
	to->bad += counts->bad;
}

/* With two clocks a thread that one of them misses is not sampled whole; most miss both or none. */
static uint32_t unsampled(const struct kp_attachment *a)
{
	uint32_t events = a->event ? a->event->failed : 0;

	return events > a->timer->failed ? events : a->timer->failed;
}

/* The attachment is closed: what it leaves behind is its figures. */
static void settle(struct kp_family *family, struct kp_process *process, uint64_t detach_ns)
{
	struct kp_attachment *a = &process->attachment;
	struct kp_raw_end *sums = &family->sums;

	if (a->memory->user_count == 1) {
		struct kp_ring_counts counts;

		kp_drain_count(&a->memory->drain, &counts);
		sums->lost.taken += counts.taken;
		sums->lost.kept += counts.kept;
		sums->lost.dropped_full += counts.dropped_full;
		sums->lost.dropped_cap += counts.dropped_cap;
		sums->lost.abandoned += counts.abandoned;
		sums->lost.bad += counts.bad;
		sums->overruns += a->memory->drain.overruns;
		sums->modules += a->memory->tables.modules;
		sums->modules_with_table += a->memory->tables.modules_with_table;
	}
	sums->threads_unsampled += unsampled(a);
	if (sums->stop_attach_ns < a->stopped_ns)
		sums->stop_attach_ns = a->stopped_ns;
	if (sums->stop_detach_ns < detach_ns)
		sums->stop_detach_ns = detach_ns;
	kp_attachment_deinit(a);
}

/* PROCESS and THREAD of a program that has no agent, so that its TALLY has a name. */
int kp_process_name(struct kp_family *family, struct kp_process *process, struct kp_err *err)
{
	if (process->named)
		return 0;
	process->named = true;
	return kp_name_process(family->plan->writer, process->pid, process->parent, process->comm,
			       err);
}

int kp_process_ran(struct kp_family *family, struct kp_process *process,
		   const struct kp_task_event *event, struct kp_err *err)
{
	struct kp_raw_thread thread = { .pid = (uint32_t)event->pid,
					.tid = (uint32_t)event->tid,
					.comm = kp_raw_string(process->comm) };
	int r;

	if (kp_tally_ran(&process->tally, event) || !event->since_birth)
		return 0;
	/* It was over before it could be met. */
	process->tally.put_ns += event->ran_ns;
	r = kp_process_name(family, process, err);
	if (r == 0)
		r = kp_raw_put_thread(family->plan->writer, &thread, err);
	return r < 0 ? r
		     : kp_tally_put_stranger(&family->book, event->pid, event->tid, event->ran_ns,
					     err);
}

void kp_process_close(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	struct kp_err err;
	uint64_t detach_ns;

	if (!process->attachment.live)
		return;
	if (kp_attachment_close(&process->attachment, elapsed_ns, &detach_ns, &err) < 0)
		kp_family_say(family, "warning: %s", err.text);
	settle(family, process, detach_ns);
}

/* ---- attaching ---- */

/* What a dead kitprof left is removed, then the process is looked at again. */
static int check(struct kp_family *family, pid_t pid, struct kp_target *ret, struct kp_err *err)
{
	int r = kp_target_check(pid, family->plan->signal, ret, err);

	for (int i = 0; i < LEFTOVERS_MAX && r == 0 && ret->leftover_base; i++) {
		kp_family_say(family, "pid %d: removing what a killed kitprof left", (int)pid);
		r = kp_remove(pid, NULL, ret->leftover_base, ret->leftover_end, 0, NULL, err);
		if (r == 0)
			r = kp_target_check(pid, family->plan->signal, ret, err);
	}
	if (r == 0 && ret->leftover_base)
		return kp_fail(err, KP_EBUSY,
			       "pid %d: what a killed kitprof left cannot be removed", (int)pid);
	return r;
}

/* Once: with one program of a family it is the same as with all others that are under its limits. */
static void say_lack_of_tables(struct kp_family *family, const struct kp_attachment *a)
{
	uint64_t bytes = a->live ? a->memory->map.shape.tables_bytes : 0;

	if (!a->live || family->lack_of_tables_said || bytes >= kp_attachment_tables_bytes(a->plan))
		return;
	family->lack_of_tables_said = true;
	if (bytes)
		kp_family_say(family,
			      "pid %d has address space for %u MiB of unwind tables only: some "
			      "code may be walked by frame pointers",
			      (int)a->target.pid, (unsigned)(bytes >> 20));
	else
		kp_family_say(family,
			      "pid %d has no address space for unwind tables: stacks are walked by "
			      "frame pointers",
			      (int)a->target.pid);
}

int kp_process_attach(struct kp_family *family, struct kp_process *process, struct kp_err *err)
{
	struct kp_target target;
	int r = check(family, process->pid, &target, err);

	if (r == 0)
		r = kp_attachment_open(&process->attachment, family->plan, &process->tally, &target,
				       err);
	process->named |= process->attachment.live;
	say_lack_of_tables(family, &process->attachment);
	/* What began and could not be finished does not stay in the target until the end. */
	if (r < 0 && process->attachment.live)
		kp_process_close(family, process, kp_now_ns() - family->plan->start_ns);
	else if (r < 0)
		kp_attachment_deinit(&process->attachment);
	return r;
}

/* CPU time from here on is the window's; of one that was born in it, all. */
void kp_process_begin_cpu(const struct kp_family *family, struct kp_process *process)
{
	uint64_t now, born;
	bool in_window = family->count > 1 && kp_proc_start_time(process->pid, &born, NULL) == 0 &&
			 born >= family->start_ticks;

	if (kp_proc_cpu_ns(process->pid, &now))
		process->cpu_ns = now;
	process->cpu_start_ns = in_window ? 0 : process->cpu_ns;
	if (!in_window)
		kp_proc_waited_cpu_ns(process->pid, &process->waited_start_ns);
	process->silent_cpu_ns = process->cpu_ns;
	process->tally.born = in_window;
}

int kp_family_attach(struct kp_family *family, pid_t pid, struct kp_err *err)
{
	struct kp_process *process = kp_family_add(family, pid, err);
	int r;

	if (!process)
		return -KP_ENOMEM;
	kp_prepare_process(family->plan->store, pid);
	r = kp_process_attach(family, process, err);
	kp_process_begin_cpu(family, process);
	process->look_for_children = true;
	return r;
}

int kp_family_attach_all(struct kp_family *family, const struct kp_census *census, bool once,
			 struct kp_err *err)
{
	return kp_crowd_create(census, once, &family->crowd, err);
}

bool kp_family_is_settled(const struct kp_family *family)
{
	return kp_crowd_is_settled(family->crowd);
}

const char *kp_family_note(struct kp_family *family)
{
	return kp_crowd_note(family);
}

size_t kp_family_live(const struct kp_family *family)
{
	size_t live = 0;

	for (size_t i = 0; i < family->count; i++)
		live += family->process[i]->attachment.live;
	return live;
}

/* Watched before it execs, so that no fork of its first moments is missed. */
static void child_exists(void *ctx, pid_t pid)
{
	const struct kp_family *family = ctx;

	if (family->plan->events)
		kp_task_events_add(family->plan->events, pid, NULL);
}

int kp_family_launch(struct kp_family *family, char *const argv[], void (*before_exec)(void *),
		     void *ctx, struct kp_err *err)
{
	struct kp_launch_hooks hooks = { .child_exists = child_exists,
					 .ctx = family,
					 .before_exec = before_exec,
					 .before_exec_ctx = ctx };
	struct kp_process *process = kp_family_add(family, 0, err);
	int r;

	if (!process)
		return -KP_ENOMEM;
	kp_prepare_program(family->plan->store, argv[0]);
	r = kp_attachment_launch(&process->attachment, family->plan, &process->tally, argv, &hooks,
				 err);
	process->pid = process->attachment.target.pid;
	process->named = true;
	say_lack_of_tables(family, &process->attachment);
	if (r != 0)
		kp_attachment_deinit(&process->attachment);
	else
		kp_process_begin_cpu(family, process);
	return r;
}

/* ---- sums ---- */

void kp_family_count(const struct kp_family *family, struct kp_ring_counts *ret)
{
	const struct kp_raw_lost *lost = &family->sums.lost;

	*ret = (struct kp_ring_counts){ .taken = lost->taken,
					.kept = lost->kept,
					.dropped = lost->taken - lost->kept,
					.dropped_full = lost->dropped_full,
					.dropped_cap = lost->dropped_cap,
					.abandoned = lost->abandoned,
					.bad = lost->bad };
	for (size_t i = 0; i < family->count; i++) {
		const struct kp_attachment *a = &family->process[i]->attachment;
		struct kp_ring_counts counts;

		if (!a->live || a->memory->user[0] != a)
			continue; /* counted with the first who has it */
		kp_drain_count(&a->memory->drain, &counts);
		add_counts(ret, &counts);
	}
}

/*
 * The process's clock knows also what its threads used when they were taken down; its threads, what
 * it used since the clock was last looked at.
 */
uint64_t kp_process_cpu_ns(const struct kp_process *process)
{
	uint64_t clock_ns = process->cpu_ns - process->cpu_start_ns;
	uint64_t threads_ns = kp_tally_cpu_ns(&process->tally);

	return clock_ns > threads_ns ? clock_ns : threads_ns;
}

/*
 * Of those that live, and of what they have waited for: the kernel knows also what ended before
 * anybody saw it, and what it cost to take it down.
 */
static uint64_t cpu_of_living_ns(const struct kp_family *family)
{
	uint64_t sum = 0, waited_ns;

	for (size_t i = 0; i < family->count; i++) {
		const struct kp_process *process = family->process[i];

		sum += kp_process_cpu_ns(process);
		if (family->follow && kp_proc_waited_cpu_ns(process->pid, &waited_ns) &&
		    waited_ns > process->waited_start_ns)
			sum += waited_ns - process->waited_start_ns;
	}
	return sum;
}

uint64_t kp_family_cpu_ns(const struct kp_family *family)
{
	uint64_t living_ns = cpu_of_living_ns(family), watched_ns = family->cpu_of_ended_ns;

	for (size_t i = 0; i < family->count; i++)
		watched_ns += kp_process_cpu_ns(family->process[i]);
	return living_ns > watched_ns ? living_ns : watched_ns;
}

/* What a child has inherited that was forked too late to be followed: it has no clock. */
static void clean_children(struct kp_family *family, pid_t pid, const struct kp_shm_map *map,
			   int signal)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t n = kp_proc_children(pid, &pids);

	for (size_t i = 0; i < n; i++)
		if (!kp_family_find(family, pids[i]) && kp_is_injected(pids[i], map->base))
			kp_remove(pids[i], NULL, map->base, map->base + map->bytes, signal, NULL,
				  NULL);
}

static void close_for_good(struct kp_family *family, struct kp_process *process,
			   uint64_t elapsed_ns)
{
	struct kp_agent_memory *memory = process->attachment.memory;
	struct kp_shm_map map;
	int signal;

	if (!process->attachment.live)
		return;
	map = memory->map;
	signal = memory->signal;
	kp_process_close(family, process, elapsed_ns);
	clean_children(family, process->pid, &map, signal);
}

/* Those that came last, of which nobody knows a name yet, included. */
static void put_tallies(struct kp_family *family)
{
	struct kp_err err;
	int r = kp_follow_last(family, &err);

	for (size_t i = 0; i < family->count && r == 0; i++) {
		struct kp_process *process = family->process[i];

		if (process->tally.count == 0)
			continue;
		r = kp_process_name(family, process, &err);
		if (r == 0)
			r = kp_tally_put_all(&process->tally, true, &err);
	}
	if (r < 0)
		kp_family_say(family, "warning: %s", err.text);
}

/* All clocks fall silent at once, so that the window ends at one moment. */
void kp_family_close(struct kp_family *family, uint64_t elapsed_ns)
{
	for (size_t i = 0; i < family->count; i++) {
		struct kp_attachment *a = &family->process[i]->attachment;

		if (a->live)
			kp_attachment_end(a, elapsed_ns);
	}
	/* Parents first: what they fork from then on has inherited nothing. */
	for (size_t i = 0; i < family->count; i++)
		close_for_good(family, family->process[i], elapsed_ns);
	put_tallies(family);
	if (family->crowd)
		kp_crowd_sweep(family);
}

void kp_family_deinit(struct kp_family *family)
{
	for (size_t i = 0; i < family->count; i++) {
		kp_attachment_deinit(&family->process[i]->attachment);
		kp_tally_deinit(&family->process[i]->tally);
		kp_modules_deinit(&family->process[i]->image);
		free(family->process[i]);
	}
	free(family->process);
	kp_passed_deinit(&family->passed);
	kp_crowd_destroy(family->crowd);
	*family = (struct kp_family){ 0 };
}
