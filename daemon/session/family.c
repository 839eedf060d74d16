/*
 * The processes of a session: family.h. Daemon, session loop.
 *
 * A forked child has the agent's mapping and handler from its parent and only needs clocks. An
 * exec'd program has neither and gets them anew. Both are heard of from task events; where those
 * are not allowed, from /proc.
 */
#include "daemon/session/family.h"

#include "common/cleanup.h"
#include "daemon/linux/children.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define ACTION_CHECK_NS (100 * MS) /* whether the handler is still there */
#define YOUNG_NS (30 * MS)
#define SILENCE_NS (1000 * MS) /* CPU used without any sample before the handler is looked up */
#define RETRY_NS (1 * MS) /* an image that was not ready to be attached to */
#define TRIES_MAX 2000
#define TICKS_PER_S 100 /* USER_HZ: the same on all our CPUs */
#define PROCESSES_MAX 2000

void kp_family_init(struct kp_family *family, struct kp_attachment_plan *plan, bool follow,
		    kp_family_say_fn say, void *ctx)
{
	struct timespec now;

	*family = (struct kp_family){ .plan = plan, .follow = follow, .say = say, .ctx = ctx };
	clock_gettime(CLOCK_BOOTTIME, &now);
	family->start_ticks = (uint64_t)now.tv_sec * TICKS_PER_S +
			      (uint64_t)now.tv_nsec / (1000000000 / TICKS_PER_S);
}

__attribute__((format(printf, 2, 3))) static void say(const struct kp_family *family,
						      const char *fmt, ...)
{
	char line[640];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	family->say(family->ctx, line);
}

/* ---- the set ---- */

static struct kp_process *find(const struct kp_family *family, pid_t pid)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->process[i]->pid == pid && !family->process[i]->ended)
			return family->process[i];
	return NULL;
}

static struct kp_process *add(struct kp_family *family, pid_t pid, struct kp_err *err)
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
	family->process[family->count++] = process;
	return process;
}

static bool is_target(const struct kp_family *family, const struct kp_process *process)
{
	return process == family->process[0];
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
	}
	sums->threads_seen += (uint32_t)a->threads.seen;
	sums->threads_unsampled += unsampled(a);
	if (sums->stop_attach_ns < a->stopped_ns)
		sums->stop_attach_ns = a->stopped_ns;
	if (sums->stop_detach_ns < detach_ns)
		sums->stop_detach_ns = detach_ns;
	kp_attachment_deinit(a);
}

static void close_attachment(struct kp_family *family, struct kp_process *process,
			     uint64_t elapsed_ns)
{
	struct kp_err err;
	uint64_t detach_ns;

	if (!process->attachment.live)
		return;
	if (kp_attachment_close(&process->attachment, elapsed_ns, &detach_ns, &err) < 0)
		say(family, "warning: %s", err.text);
	settle(family, process, detach_ns);
}

/* ---- attaching ---- */

/* What a dead kitprof left is removed, then the process is looked at again. */
static int check(struct kp_family *family, pid_t pid, struct kp_target *ret, struct kp_err *err)
{
	int r = kp_target_check(pid, family->plan->signal, ret, err);

	if (r < 0 || !ret->leftover_base)
		return r;
	say(family, "pid %d: removing what a killed kitprof left", (int)pid);
	r = kp_remove(pid, NULL, ret->leftover_base, ret->leftover_end, 0, NULL, err);
	return r < 0 ? r : kp_target_check(pid, family->plan->signal, ret, err);
}

static int attach(struct kp_family *family, struct kp_process *process, struct kp_err *err)
{
	struct kp_target target;
	int r = check(family, process->pid, &target, err);

	if (r == 0)
		r = kp_attachment_open(&process->attachment, family->plan, &target, err);
	if (r < 0 && !process->attachment.live)
		kp_attachment_deinit(&process->attachment);
	return r;
}

/* CPU time from here on is the window's; of one that was born in it, all. */
static void begin_cpu(const struct kp_family *family, struct kp_process *process)
{
	uint64_t now, born;
	bool in_window = family->count > 1 && kp_proc_start_time(process->pid, &born, NULL) == 0 &&
			 born >= family->start_ticks;

	if (kp_proc_cpu_ns(process->pid, &now))
		process->cpu_ns = now;
	process->cpu_start_ns = in_window ? 0 : process->cpu_ns;
	process->silent_cpu_ns = process->cpu_ns;
}

int kp_family_attach(struct kp_family *family, pid_t pid, struct kp_err *err)
{
	struct kp_process *process = add(family, pid, err);
	int r;

	if (!process)
		return -KP_ENOMEM;
	r = attach(family, process, err);
	begin_cpu(family, process);
	process->look_for_children = true;
	return r;
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
	struct kp_process *process = add(family, 0, err);
	int r;

	if (!process)
		return -KP_ENOMEM;
	r = kp_attachment_launch(&process->attachment, family->plan, argv, &hooks, err);
	process->pid = process->attachment.target.pid;
	if (r != 0)
		kp_attachment_deinit(&process->attachment);
	else
		begin_cpu(family, process);
	return r;
}

/* ---- following ---- */

/*
 * Whether a child has the agent from its parent: a handler survives fork and not exec. Cheaper than
 * a look at its map, and time counts: until its clocks are armed it is not sampled. An event that
 * is opened for a child which execs just then is removed by the kernel.
 */
static bool has_inherited(const struct kp_process *parent, const struct kp_proc_status *status)
{
	return parent && parent->attachment.live &&
	       status->sig_caught & kp_signal_bit(parent->attachment.memory->signal);
}

static struct kp_target describe_child(const struct kp_process *parent, pid_t pid,
				       const struct kp_proc_status *status)
{
	struct kp_target target = parent->attachment.target;

	target.pid = pid;
	target.ns_pid = status->ns_tid;
	snprintf(target.comm, sizeof(target.comm), "%s", status->name);
	return target;
}

static void refuse(struct kp_family *family, struct kp_process *process, const struct kp_err *err)
{
	process->refused = true;
	family->refused++;
	say(family, "not sampled: %s", err->text);
}

/*
 * The kernel tells of an exec before it has mapped the program; the vdso comes last. Without it
 * nothing could be done there.
 */
static bool is_loaded(pid_t pid)
{
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };

	return kp_maps_init(&maps, pid, 0, NULL) == 0 && kp_maps_find_path(&maps, "[vdso]");
}

/* A program image that has no agent yet. One that just begins is tried again in a moment. */
static void take_image(struct kp_family *family, struct kp_process *process)
{
	struct kp_err err;
	int r = is_loaded(process->pid)
			? attach(family, process, &err)
			: kp_fail(&err, KP_EBUSY, "pid %d does not come to run", (int)process->pid);

	process->try_again_ns = 0;
	process->lender = 0;
	process->look_for_children = true;
	if (r == 0 || r == -KP_EGONE)
		return;
	if (r == -KP_EBUSY && ++process->tries < TRIES_MAX) {
		process->try_again_ns = kp_now_ns() + RETRY_NS;
		return;
	}
	family->target_lost |= is_target(family, process);
	refuse(family, process, &err);
}

static void child_came(struct kp_family *family, struct kp_process *parent, pid_t pid)
{
	struct kp_proc_status status;
	struct kp_process *child;
	struct kp_target target;

	/* The target may be the shell that kitprof was started from. */
	if (!family->follow || pid == getpid() || find(family, pid) ||
	    family->count >= PROCESSES_MAX)
		return;
	if (kp_proc_status(pid, pid, &status, NULL) < 0)
		return;
	child = add(family, pid, NULL);
	if (!child)
		return;
	begin_cpu(family, child);
	/* After vfork() it is in its parent's memory, where nothing is its own, until it execs. */
	if (parent && kp_proc_share_memory(parent->pid, pid)) {
		child->lender = parent->pid;
		child->try_again_ns = kp_now_ns() + RETRY_NS;
		if (family->plan->events)
			kp_task_events_add(family->plan->events, pid, NULL);
		return;
	}
	if (!has_inherited(parent, &status)) {
		take_image(family, child);
		return;
	}
	target = describe_child(parent, pid, &status);
	if (kp_attachment_fork(&child->attachment, &parent->attachment, &target, NULL) < 0 &&
	    !child->attachment.live)
		kp_attachment_deinit(&child->attachment);
	child->look_for_children = true;
}

/* Another program now. Returns false where that is not so. */
static bool image_changed(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	if (process->attachment.live &&
	    kp_is_injected(process->pid, process->attachment.memory->map.base))
		return false;
	if (process->attachment.live)
		family->sums.threads_seen--; /* the thread that execs is the new program's first */
	close_attachment(family, process, elapsed_ns);
	process->refused = false;
	process->tries = 0;
	take_image(family, process);
	return true;
}

struct turn {
	struct kp_family *family;
	uint64_t elapsed_ns;
};

static void look_at_all(struct kp_family *family)
{
	for (size_t i = 0; i < family->count; i++) {
		struct kp_attachment *a = &family->process[i]->attachment;

		a->look_at_threads = a->look_at_modules = a->look_at_names = true;
		family->process[i]->look_for_children = true;
	}
}

static int task_event(void *ctx, const struct kp_task_event *event, struct kp_err *err)
{
	struct turn *turn = ctx;
	struct kp_family *family = turn->family;
	struct kp_process *process = find(family, event->pid);

	(void)err;
	if (event->type == KP_TASK_FORK && event->pid != event->parent_pid) {
		child_came(family, find(family, event->parent_pid), event->pid);
	} else if (event->type == KP_TASK_LOST) {
		look_at_all(family);
	} else if (process && event->type == KP_TASK_EXEC) {
		image_changed(family, process, turn->elapsed_ns);
	} else if (process) {
		struct kp_attachment *a = &process->attachment;

		a->look_at_threads |= event->type == KP_TASK_FORK || event->type == KP_TASK_EXIT;
		a->look_at_modules |= event->type == KP_TASK_MMAP;
		a->look_at_names |= event->type == KP_TASK_NAME;
	}
	return 0;
}

static void find_children(struct kp_family *family, struct kp_process *process)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t n = kp_proc_children(process->pid, &pids);

	process->look_for_children = false;
	for (size_t i = 0; i < n; i++)
		child_came(family, process, pids[i]);
}

static void find_all_children(struct kp_family *family)
{
	/* Those that are found now have children of their own to be looked for next time. */
	size_t count = family->follow ? family->count : 0;

	for (size_t i = 0; i < count; i++)
		if (!family->plan->events || family->process[i]->look_for_children)
			find_children(family, family->process[i]);
}

/* ---- turns ---- */

/*
 * The signal is not caught any more: either the program is another one now, or it has taken the
 * signal away.
 */
static void handler_lost(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	struct kp_err err;

	if (image_changed(family, process, elapsed_ns))
		return;
	close_attachment(family, process, elapsed_ns);
	family->target_lost |= is_target(family, process);
	kp_fail(&err, KP_EREFUSED, "pid %d took the sampling signal for itself", (int)process->pid);
	refuse(family, process, &err);
}

/* A handler of the program's own in place of ours shows only in that no samples come. */
static bool is_silent(struct kp_process *process)
{
	const struct kp_attachment *a = &process->attachment;
	const struct kp_shm_head *head = a->memory->map.head;
	uint64_t signs = a->samples + __atomic_load_n(&head->user_ticks, __ATOMIC_RELAXED) +
			 __atomic_load_n(&head->foreign, __ATOMIC_RELAXED);

	if (signs != process->silent_samples) {
		process->silent_samples = signs;
		process->silent_cpu_ns = process->cpu_ns;
	}
	return process->cpu_ns - process->silent_cpu_ns > SILENCE_NS;
}

static void check_handler(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	struct kp_attachment *a = &process->attachment;
	uint64_t now = kp_now_ns();
	struct kp_proc_status status;
	bool ours, young = now - a->attached_ns < YOUNG_NS;

	if (now - process->action_check_ns < ACTION_CHECK_NS && !(young && !family->plan->events))
		return;
	process->action_check_ns = now;
	if (kp_proc_status(process->pid, process->pid, &status, NULL) < 0 || status.state == 'Z')
		return;
	if (!(status.sig_caught & kp_signal_bit(a->memory->signal))) {
		handler_lost(family, process, elapsed_ns);
		return;
	}
	if (!is_silent(process))
		return;
	process->silent_cpu_ns = process->cpu_ns;
	if (kp_handler_is_ours(process->pid, &a->memory->map, a->memory->signal, &ours, NULL) ==
		    0 &&
	    !ours)
		handler_lost(family, process, elapsed_ns);
}

static bool has_ended(const struct kp_process *process)
{
	struct kp_proc_status status;

	if (process->attachment.live)
		return process->attachment.threads.count == 0;
	return kp_proc_status(process->pid, process->pid, &status, NULL) < 0 || status.state == 'Z';
}

static int turn_process(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns,
			struct kp_err *err)
{
	uint64_t cpu_ns;
	int r = 0;

	if (process->try_again_ns && kp_now_ns() >= process->try_again_ns) {
		if (process->lender && kp_proc_share_memory(process->lender, process->pid))
			process->try_again_ns = kp_now_ns() + RETRY_NS;
		else
			take_image(family, process);
	}
	if (process->attachment.live)
		r = kp_attachment_turn(&process->attachment, elapsed_ns, err);
	if (r < 0)
		return r;
	if (kp_proc_cpu_ns(process->pid, &cpu_ns) && cpu_ns > process->cpu_ns)
		process->cpu_ns = cpu_ns;
	process->ended = has_ended(process);
	if (!process->ended && process->attachment.live)
		check_handler(family, process, elapsed_ns);
	return 0;
}

/* Children that have ended go; the target's entry stays the first. */
static void bury(struct kp_family *family, uint64_t elapsed_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < family->count; i++) {
		struct kp_process *process = family->process[i];

		if (i == 0 || !process->ended) {
			family->process[kept++] = process;
			continue;
		}
		close_attachment(family, process, elapsed_ns);
		family->cpu_of_ended_ns += process->cpu_ns - process->cpu_start_ns;
		free(process);
	}
	family->count = kept;
}

int kp_family_turn(struct kp_family *family, uint64_t elapsed_ns, struct kp_err *err)
{
	struct turn turn = { family, elapsed_ns };
	int r = 0;

	if (family->plan->events)
		r = kp_task_events_read(family->plan->events, task_event, &turn, err);
	find_all_children(family);
	for (size_t i = 0; i < family->count && r == 0; i++)
		r = turn_process(family, family->process[i], elapsed_ns, err);
	bury(family, elapsed_ns);
	return r;
}

bool kp_family_is_in_a_hurry(const struct kp_family *family)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->process[i]->try_again_ns ||
		    kp_attachment_is_in_a_hurry(&family->process[i]->attachment))
			return true;
	return false;
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

uint64_t kp_family_cpu_ns(const struct kp_family *family)
{
	uint64_t sum = family->cpu_of_ended_ns;

	for (size_t i = 0; i < family->count; i++)
		sum += family->process[i]->cpu_ns - family->process[i]->cpu_start_ns;
	return sum;
}

/* What a child has inherited that was forked too late to be followed: it has no clock. */
static void clean_children(struct kp_family *family, pid_t pid, const struct kp_shm_map *map,
			   int signal)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t n = kp_proc_children(pid, &pids);

	for (size_t i = 0; i < n; i++)
		if (!find(family, pids[i]) && kp_is_injected(pids[i], map->base))
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
	close_attachment(family, process, elapsed_ns);
	clean_children(family, process->pid, &map, signal);
}

/* All clocks fall silent at once, so that the window ends at one moment. */
void kp_family_close(struct kp_family *family, uint64_t elapsed_ns)
{
	for (size_t i = 0; i < family->count; i++) {
		struct kp_attachment *a = &family->process[i]->attachment;

		if (!a->live)
			continue;
		kp_drain_run(&a->memory->drain, elapsed_ns, false, NULL);
		__atomic_store_n(&a->memory->map.head->on, 0, __ATOMIC_RELEASE);
	}
	/* Parents first: what they fork from then on has inherited nothing. */
	for (size_t i = 0; i < family->count; i++)
		close_for_good(family, family->process[i], elapsed_ns);
}

void kp_family_deinit(struct kp_family *family)
{
	for (size_t i = 0; i < family->count; i++) {
		kp_attachment_deinit(&family->process[i]->attachment);
		free(family->process[i]);
	}
	free(family->process);
	*family = (struct kp_family){ 0 };
}
