/* The agent in one program image of a process: attachment.h. Daemon, session loop. */
#include "daemon/session/attachment.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/watch/jitdump.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define YOUNG_NS (30 * MS) /* a new image loads its libraries: look often */
#define FULL_POLL_NS (100 * MS) /* threads, even if their number did not change */
#define RESCAN_MIN_NS (1 * MS) /* modules, when a PC was in none of them */
#define SCAN_NS (1000 * MS) /* modules anyway, at least this often */
#define SCAN_PART_SAID 3 /* likewise, when something is said to have been mapped */
#define SCAN_MIN_NS (30 * MS) /* and at most this often */
#define SCAN_PART 200 /* of the time at most goes into looking */
#define NAMES_NS (500 * MS) /* threads give themselves names after they are born */
#define MAIL_PATIENCE_MS 8 /* of the thread's CPU time */
#define NUDGE_NS (1 * MS) /* CPU time of a new thread until its timer is armed, about */
#define EARLY_NS (10 * MS) /* for so long the kernel samples a new thread by itself */
#define LEASE_SECONDS 3
#define LEASE_MIN 100
#define RING_BYTES_MAX (16u << 20)
#define RING_BYTES_MANY_MAX (2u << 20) /* where there are many of them */

/* Words of a record: frames, or a slice. */
static uint32_t ring_words(const struct kp_attachment_plan *plan)
{
	uint32_t slice = KP_SLICE_HEAD_WORDS + plan->slice_bytes / 8;

	if (plan->unwind != KP_UNWIND_SLICE || slice < plan->depth)
		return plan->depth;
	return slice <= KP_RING_WORDS_MAX ? slice : KP_RING_WORDS_MAX;
}

/*
 * Ring for about a quarter of a second of eight busy threads, and no more than --cap. With slices
 * for less, but for several turns of the session loop. Less as well where the session has many.
 */
static uint32_t ring_cells(const struct kp_attachment_plan *plan)
{
	uint64_t wanted = plan->rate_mhz > 2000000 ? 4096 : 1024;
	uint64_t bytes_max = plan->cells_max ? RING_BYTES_MANY_MAX : RING_BYTES_MAX;
	uint32_t cells = 2;

	if (plan->cells_max && plan->cells_max < wanted)
		wanted = plan->cells_max;
	while (cells * 2 <= wanted && cells * 2 <= plan->left &&
	       kp_ring_bytes(cells * 2, ring_words(plan)) <= bytes_max)
		cells *= 2;
	return cells;
}

/* Ticks of timers that may come without a heartbeat before they stop by themselves. */
static uint64_t lease_ticks(const struct kp_attachment *a)
{
	uint64_t per_second = 1000000000 / a->plan->clocks.timer_period_ns + 1;
	uint64_t threads = a->threads.count ? a->threads.count : 1;
	uint64_t lease = LEASE_SECONDS * per_second * threads;

	return lease > LEASE_MIN ? lease : LEASE_MIN;
}

/* With several processes on one ring, the last heartbeat of a turn counts: each is long enough. */
static void heartbeat(struct kp_attachment *a)
{
	struct kp_shm_head *head = a->memory->map.head;
	uint64_t ticks = __atomic_load_n(&head->timer_ticks, __ATOMIC_RELAXED);

	__atomic_store_n(&head->lease, ticks + lease_ticks(a) * a->memory->user_count,
			 __ATOMIC_RELAXED);
}

uint64_t kp_attachment_tables_bytes(const struct kp_attachment_plan *plan)
{
	return plan->unwind == KP_UNWIND_FP ? 0 : KP_SHM_TABLES_BYTES;
}

static struct kp_agent_plan make_plan(const struct kp_attachment *a)
{
	const struct kp_attachment_plan *plan = a->plan;

	return (struct kp_agent_plan){
		.signal = a->target.signal,
		.depth = plan->depth,
		.cell_count = ring_cells(plan),
		.words = ring_words(plan),
		.ticket_max = plan->left,
		.period_ns = plan->clocks.timer_period_ns,
		.timer_mode = plan->clocks.timer_mode,
		.lease = lease_ticks(a),
		.unwind = plan->unwind,
		.slice_bytes = plan->slice_bytes,
		.tables_bytes = kp_attachment_tables_bytes(plan),
		.tables_fd = plan->store ? kp_store_tables_fd(plan->store) : -1,
	};
}

uint64_t kp_attachment_elapsed_ns(const struct kp_attachment *a)
{
	return a->plan->start_ns ? kp_now_ns() - a->plan->start_ns : 0;
}

/* ---- samples ---- */

static uint64_t period_of(const struct kp_attachment *a, uint8_t source)
{
	switch (source) {
	case KP_SOURCE_EVENT:
		return a->plan->clocks.event.ns;
	case KP_SOURCE_EARLY:
		return a->plan->early_period_ns;
	case KP_SOURCE_STOP:
	case KP_SOURCE_WAIT:
		return kp_outsiders_period(&a->outsiders, source);
	default:
		return a->plan->clocks.timer_period_ns;
	}
}

static bool is_from_outside(uint8_t source)
{
	return source == KP_SOURCE_STOP || source == KP_SOURCE_WAIT;
}

static bool is_from_handler(uint8_t source)
{
	return source == KP_SOURCE_TIMER || source == KP_SOURCE_EVENT;
}

pid_t kp_attachment_owner(const struct kp_attachment *a, const struct kp_ring_record *record)
{
	const struct kp_clock *clock = record->source == KP_SOURCE_EVENT ? a->event : a->timer;

	if (is_from_outside(record->source))
		return kp_outsiders_owner(&a->outsiders, record->source, record->origin);
	return clock ? clock->ops->owner(clock, record->origin) : 0;
}

static bool has_unknown_caller(const struct kp_attachment *a, const struct kp_ring_record *record)
{
	for (uint16_t i = 1; i < record->depth; i++)
		if (!kp_modules_contain(&a->modules, record->pc[i]))
			return true;
	return false;
}

/* How soon modules may be looked at again when something is said to have been mapped. */
static uint64_t said_interval(const struct kp_attachment *a)
{
	uint64_t wanted = a->scan_cost_ns * SCAN_PART_SAID;

	return wanted < MS ? wanted : MS;
}

/*
 * A library may have been loaded since the last look; then it must be in the file before the
 * sample. A leaf was executed, so it is worth a look at once. A caller may be no code at all
 * (frames without frame pointers): the looks that find nothing come less and less often.
 */
static int learn_modules(struct kp_attachment *a, const struct kp_ring_record *record,
			 struct kp_err *err)
{
	uint64_t since = kp_now_ns() - a->scan_ns;
	bool leaf_known = kp_modules_contain(&a->modules, record->pc[0]);
	uint64_t patience = leaf_known ? a->rescan_ns : RESCAN_MIN_NS;
	size_t found;
	int r;

	if (a->look_at_modules)
		patience = said_interval(a);
	if (since < patience || (leaf_known && !has_unknown_caller(a, record)))
		return 0;
	a->scan_ns = kp_now_ns();
	r = kp_modules_scan(&a->modules, &found, err);
	if (found || a->rescan_ns < RESCAN_MIN_NS)
		a->rescan_ns = RESCAN_MIN_NS;
	else
		a->rescan_ns = a->rescan_ns * 2 < SCAN_NS ? a->rescan_ns * 2 : SCAN_NS;
	return r;
}

/* Which places of code that the program has made itself are to be named in the end. */
static int note_compiled(struct kp_attachment *a, const struct kp_ring_record *record,
			 struct kp_err *err)
{
	int r = 0;

	if (!a->modules.has_anon)
		return 0;
	for (uint16_t i = 0; i < record->depth && r == 0; i++) {
		uint64_t address = i ? record->pc[i] - 1 : record->pc[0];
		const struct kp_known_module *module = kp_modules_find(&a->modules, address);

		if (module && module->anon)
			r = kp_compiled_note(&a->compiled, address, err);
	}
	return r;
}

int kp_attachment_complete(struct kp_attachment *a, const struct kp_ring_record *record, pid_t tid,
			   struct kp_raw_sample *sample, struct kp_err *err)
{
	struct kp_thread *thread = kp_threads_find(&a->threads, tid);
	int r;

	sample->pid = (uint32_t)a->target.pid;
	sample->tid = (uint32_t)tid;
	sample->weight_ns = period_of(a, record->source) * (1 + (uint64_t)record->overrun);
	if (record->source != KP_SOURCE_WAIT)
		a->explained_ns += sample->weight_ns;
	a->samples += is_from_handler(record->source);
	if (thread && !is_from_outside(record->source))
		thread->sampled_ns += sample->weight_ns;
	r = learn_modules(a, record, err);
	return r < 0 ? r : note_compiled(a, record, err);
}

/* ---- facts about the target ---- */

static int put_process(struct kp_attachment *a, pid_t parent, struct kp_err *err)
{
	struct kp_raw_process record = { .pid = (uint32_t)a->target.pid,
					 .parent = (uint32_t)parent,
					 .comm = kp_raw_string(a->target.comm),
					 .exe = kp_raw_string(a->target.exe) };

	return kp_raw_put_process(a->plan->writer, &record, err);
}

static int put_thread(struct kp_attachment *a, const struct kp_thread *thread, struct kp_err *err)
{
	struct kp_raw_thread record = { .pid = (uint32_t)a->target.pid,
					.tid = (uint32_t)thread->tid,
					.comm = kp_raw_string(thread->comm) };

	return kp_raw_put_thread(a->plan->writer, &record, err);
}

/* Who looks from outside sends none. */
static uint32_t signal_of(const struct kp_attachment *a, const struct kp_clock *clock)
{
	return is_from_outside((uint8_t)clock->ops->source) ? 0 : (uint32_t)a->memory->signal;
}

int kp_attachment_put_clock(struct kp_attachment *a, const struct kp_clock *clock,
			    struct kp_err *err)
{
	struct kp_raw_clock record = { .source = (uint32_t)clock->ops->source,
				       .signal = signal_of(a, clock),
				       .period_ns = clock->period_ns,
				       .kernel = clock->kernel,
				       .name = kp_raw_string(clock->ops->name) };

	return kp_raw_put_clock(a->plan->writer, &record, err);
}

/* A thread without a clock is counted by the clock and said at the end; it is no error. */
static void arm_clocks(struct kp_attachment *a, const struct kp_thread *thread, bool timer_too)
{
	kp_tally_end_early(a->tally, thread->tid);
	/* First what counts at once: the life of a thread may be short. */
	if (a->event)
		a->event->ops->arm(a->event, thread->tid, thread->ns_tid, NULL);
	if (timer_too)
		a->timer->ops->arm(a->timer, thread->tid, thread->ns_tid, NULL);
	if (a->nudge && timer_too)
		a->nudge->ops->arm(a->nudge, thread->tid, thread->ns_tid, NULL);
}

/* One that the kernel samples by itself has time: its life may be short. */
static bool may_wait(struct kp_attachment *a, pid_t tid)
{
	struct kp_thread *thread = kp_threads_find(&a->threads, tid);

	if (!thread || !kp_tally_is_early(a->tally, tid))
		return false;
	thread->arm_ns = kp_now_ns() + EARLY_NS;
	return true;
}

static void arm_grown(struct kp_attachment *a, uint64_t now)
{
	for (size_t i = 0; a->plan->early_period_ns && i < a->threads.count; i++) {
		struct kp_thread *thread = &a->threads.thread[i];

		if (!thread->arm_ns || now < thread->arm_ns)
			continue;
		thread->arm_ns = 0;
		arm_clocks(a, thread, true);
	}
}

static void arm(struct kp_attachment *a, const struct kp_thread *thread, bool timer_too)
{
	if (!timer_too || !may_wait(a, thread->tid))
		arm_clocks(a, thread, timer_too);
	kp_outsiders_arm(&a->outsiders, thread);
	if (a->plan->events) {
		int r = kp_task_events_add(a->plan->events, thread->tid, NULL);

		a->unwatched |= r != 0 && r != -KP_EGONE;
	}
}

/* Before its clocks are forgotten: since when they ran. */
static void note_clocks(struct kp_attachment *a, const struct kp_thread *thread)
{
	struct kp_tally_thread *tally = kp_tally_find(a->tally, thread->tid);

	if (!tally)
		return;
	tally->flags |= thread->blocks ? KP_TALLY_BLOCKED : 0;
	tally->flags |= thread->stopped ? KP_TALLY_STOPPED : 0;
	if (tally->clocked)
		return;
	if (a->event && kp_event_clock_ran(a->event, thread->tid, &tally->covered_ns))
		tally->clocked = true;
	else if (kp_timer_clock_armed_at(a->timer, thread->tid, &tally->armed_ns))
		tally->clocked = true;
	else if (a->event && kp_event_clock_is_blocked(a->event, thread->tid))
		tally->flags |= KP_TALLY_BLOCKED;
}

void kp_attachment_release(struct kp_attachment *a, const struct kp_thread *thread)
{
	struct kp_thread *known = kp_threads_find(&a->threads, thread->tid);

	if (known)
		known->arm_ns = 0;
	note_clocks(a, thread);
	kp_tally_end_early(a->tally, thread->tid);
	kp_tally_clocked_now(a->tally, thread->tid);
	a->timer->ops->release(a->timer, thread->tid);
	if (a->event)
		a->event->ops->release(a->event, thread->tid);
	if (a->nudge)
		a->nudge->ops->release(a->nudge, thread->tid);
}

void kp_attachment_take_back(struct kp_attachment *a, const struct kp_thread *thread)
{
	arm_clocks(a, thread, true);
}

static void forget(struct kp_attachment *a, pid_t tid)
{
	kp_outsiders_forget(&a->outsiders, tid);
	kp_tally_gone(a->tally, tid);
	a->timer->ops->forget(a->timer, tid);
	if (a->event)
		a->event->ops->forget(a->event, tid);
	if (a->nudge)
		a->nudge->ops->forget(a->nudge, tid);
	if (a->plan->events)
		kp_task_events_remove(a->plan->events, tid);
}

static int thread_event(void *ctx, const struct kp_thread *thread, bool came, struct kp_err *err)
{
	struct kp_attachment *a = ctx;

	int r;

	if (!came) {
		note_clocks(a, thread);
		forget(a, thread->tid);
		return 0;
	}
	arm(a, thread, true);
	r = kp_tally_meet(a->tally, thread->tid, false, err);
	return r < 0 ? r : put_thread(a, thread, err);
}

/* An event that has done its work would only cost time. */
static void end_nudges(struct kp_attachment *a)
{
	for (size_t i = 0; a->nudge && i < a->threads.count; i++)
		if (kp_timer_clock_is_settled(a->timer, a->threads.thread[i].tid))
			a->nudge->ops->forget(a->nudge, a->threads.thread[i].tid);
}

/* ---- opening ---- */

static int make_clocks(struct kp_attachment *a, struct kp_err *err)
{
	static const struct kp_event_period nudge = { KP_EVENT_TASK_CLOCK, NUDGE_NS, NUDGE_NS };
	const struct kp_clock_plan *plan = &a->plan->clocks;
	uint64_t base = a->memory->map.base;
	int r = kp_timer_clock_create(a->memory->map.head, a->target.pid, a->target.ns_pid,
				      plan->timer_period_ns,
				      plan->timer_mode == KP_TIMER_SYSCALL ? 2 : 1, &a->timer, err);

	if (r == 0 && plan->has_event)
		r = kp_event_clock_create(a->target.pid, base, a->memory->signal, &plan->event,
					  &a->event, err);
	if (r == 0 && plan->nudge)
		r = kp_event_clock_create(a->target.pid, base, a->memory->signal, &nudge, &a->nudge,
					  err);
	if (r == 0)
		r = kp_attachment_put_clock(a, a->timer, err);
	if (r == 0 && a->event)
		r = kp_attachment_put_clock(a, a->event, err);
	return r == 0 ? kp_outsiders_init(&a->outsiders, a, err) : r;
}

static void begin(struct kp_attachment *a, struct kp_attachment_plan *plan, struct kp_tally *tally)
{
	*a = (struct kp_attachment){ .plan = plan, .tally = tally, .attached_ns = kp_now_ns() };
}

/* A thread that the agent has made a timer for. One that was there has had it from its start on. */
static int meet_armed(struct kp_attachment *a, pid_t tid, struct kp_err *err)
{
	bool is_known = kp_tally_find(a->tally, tid);
	struct kp_tally_thread *thread;
	int r = kp_tally_meet(a->tally, tid, true, err);

	thread = kp_tally_find(a->tally, tid);
	if (r == 0 && !is_known && !a->tally->born) {
		thread->armed_ns = thread->start_ns;
		thread->clocked = true;
	}
	return r;
}

static const void *module_found(void *ctx, const struct kp_module_found *found)
{
	struct kp_attachment *a = ctx;

	if (found->fd >= 0 && kp_jitdump_is_name(found->name))
		kp_compiled_take_dump(&a->compiled, fcntl(found->fd, F_DUPFD_CLOEXEC, 3));
	return kp_agent_tables_found(a->plan->store, found);
}

/*
 * After the agent is in the process. armed: threads in the table whose timers it armed already.
 * parent: 0, or the pid that it was forked from.
 */
static int start(struct kp_attachment *a, const struct kp_mail *mail, size_t armed, pid_t parent,
		 struct kp_err *err)
{
	_cleanup_(kp_freep) pid_t *tids = calloc(armed + 1, sizeof(*tids));
	struct kp_shm_map *map = &a->memory->map;
	int r = kp_agent_memory_add(a->memory, a, err);

	if (r < 0)
		return r;
	a->live = true;
	a->attached_ns = kp_now_ns();
	kp_modules_init(&a->modules, a->target.pid, a->plan->writer, a->plan->pins);
	kp_compiled_init(&a->compiled, a->target.pid, a->target.ns_pid);
	a->modules.skip_base = map->base;
	a->modules.skip_end = map->base + map->bytes;
	a->modules.found = module_found;
	a->modules.found_ctx = a;
	r = tids ? make_clocks(a, err) : kp_fail_nomem(err);
	for (size_t i = 0; i < armed && r == 0; i++)
		tids[i] = a->threads.thread[i].tid;
	if (r == 0)
		r = kp_timer_clock_adopt(a->timer, mail, tids, armed, err);
	for (size_t i = 0; i < armed && r == 0; i++) {
		arm(a, &a->threads.thread[i], false);
		r = meet_armed(a, tids[i], err);
	}
	heartbeat(a);
	if (r == 0)
		r = put_process(a, parent, err);
	for (size_t i = 0; i < armed && r == 0; i++)
		r = put_thread(a, &a->threads.thread[i], err);
	if (r == 0 && !parent)
		r = kp_modules_scan(&a->modules, NULL, err);
	if (r == 0)
		r = kp_agent_tables_update(a->memory, a->plan->store, err);
	/* Threads born since the list was made. */
	return r == 0 ? kp_threads_poll(&a->threads, thread_event, a, err) : r;
}

/* The mapping becomes memory of the session; if it cannot, the agent is taken out again. */
static int take_memory(struct kp_attachment *a, struct kp_shm_map *map, struct kp_err *err)
{
	uint64_t base = map->base, bytes = map->bytes;
	int r = kp_agent_memory_create(map, a->target.signal, a->plan, &a->memory, err);

	if (r < 0)
		kp_remove(a->target.pid, NULL, base, base + bytes, a->target.signal, NULL, NULL);
	return r;
}

static int ignore_event(void *ctx, const struct kp_thread *thread, bool came, struct kp_err *err)
{
	(void)ctx, (void)thread, (void)came, (void)err;
	return 0;
}

/* It may have ended already; then it keeps the names that it had. */
static void name_program(struct kp_attachment *a)
{
	char comm[sizeof(a->target.comm)], exe[sizeof(a->target.exe)];

	kp_proc_comm(a->target.pid, a->target.pid, comm, sizeof(comm));
	kp_proc_exe(a->target.pid, exe, sizeof(exe));
	if (comm[0])
		memcpy(a->target.comm, comm, sizeof(comm));
	if (exe[0])
		memcpy(a->target.exe, exe, sizeof(exe));
}

/*
 * CPU time that a thread may use for our calls between the making of its timer and the end of its
 * stop. If the timer expired by that, the call that the thread slept in would see a signal, and some
 * return EINTR for any (sem_timedwait, with a handler that restarts what can be).
 */
#define STOP_CPU_NS MS

int kp_attachment_open(struct kp_attachment *a, struct kp_attachment_plan *attachment_plan,
		       struct kp_tally *tally, const struct kp_target *target, struct kp_err *err)
{
	_cleanup_(kp_freep) struct kp_mail *mail = NULL;
	struct kp_shm_map map = { .fd = -1 };
	struct kp_agent_plan plan;
	int r;

	begin(a, attachment_plan, tally);
	a->target = *target;
	kp_threads_init(&a->threads, target->pid, target->ns_pid);
	r = kp_threads_poll(&a->threads, ignore_event, NULL, err);
	if (r < 0)
		return r;
	plan = make_plan(a);
	mail = calloc(a->threads.count + 1, sizeof(*mail));
	if (!mail)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < a->threads.count; i++)
		mail[i] = (struct kp_mail){ .op = KP_MAIL_ARM,
					    .tid = (uint32_t)a->threads.thread[i].ns_tid,
					    .first_ns = STOP_CPU_NS +
							kp_timer_clock_first(plan.period_ns) };
	r = kp_inject(target, &plan, (struct kp_mail_list){ mail, a->threads.count }, &map,
		      &a->stopped_ns, err);
	if (r == 0)
		r = take_memory(a, &map, err);
	if (r < 0)
		return r;
	/* The program that the agent got into may have been exec'd after the target was checked. */
	name_program(a);
	return start(a, mail, a->threads.count, 0, err);
}

int kp_attachment_launch(struct kp_attachment *a, struct kp_attachment_plan *attachment_plan,
			 struct kp_tally *tally, char *const argv[],
			 const struct kp_launch_hooks *hooks, struct kp_err *err)
{
	struct kp_shm_map map = { .fd = -1 };
	struct kp_agent_plan plan;
	struct kp_mail mail;
	int r;

	begin(a, attachment_plan, tally);
	plan = make_plan(a);
	mail = (struct kp_mail){ .op = KP_MAIL_ARM,
				 .first_ns = kp_timer_clock_first(plan.period_ns) };
	r = kp_launch(argv, a->plan->signal, &plan, &mail, hooks, &a->target, &map, &a->stopped_ns,
		      err);
	if (r != 0)
		return r;
	r = take_memory(a, &map, err);
	if (r < 0)
		return r;
	kp_threads_init(&a->threads, a->target.pid, a->target.ns_pid);
	tally->pid = a->target.pid;
	/* The main thread is armed; others that were born since are found by start(). */
	r = kp_threads_add(&a->threads, a->target.pid, err);
	return r < 0 ? r : start(a, &mail, 1, 0, err);
}

int kp_attachment_fork(struct kp_attachment *a, const struct kp_attachment *parent,
		       struct kp_tally *tally, const struct kp_target *target, struct kp_err *err)
{
	begin(a, parent->plan, tally);
	a->target = *target;
	a->memory = parent->memory;
	kp_threads_init(&a->threads, target->pid, target->ns_pid);
	return start(a, NULL, 0, parent->target.pid, err);
}

/* ---- turns ---- */

/* st_nlink of the task directory is 2 + the number of threads: a cheap look. */
static bool thread_count_changed(const struct kp_attachment *a)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)a->target.pid);
	return stat(path, &st) != 0 || st.st_nlink != a->threads.count + 2;
}

static bool threads_are_due(struct kp_attachment *a, uint64_t now)
{
	if (a->look_at_threads || now - a->threads_ns >= FULL_POLL_NS)
		return true;
	return !a->plan->events && thread_count_changed(a);
}

static int look_at_threads(struct kp_attachment *a, uint64_t now, uint64_t elapsed_ns,
			   struct kp_err *err)
{
	int r;

	if (!threads_are_due(a, now))
		return 0;
	a->threads_ns = now;
	a->look_at_threads = false;
	/* Before a thread is forgotten its samples must be out of the ring. */
	r = kp_drain_run(&a->memory->drain, elapsed_ns, false, err);
	return r < 0 ? r : kp_threads_poll(&a->threads, thread_event, a, err);
}

static int look_at_names(struct kp_attachment *a, uint64_t now, struct kp_err *err)
{
	bool young = now - a->attached_ns < YOUNG_NS;
	int r = 0;

	if (!a->look_at_names && now - a->names_ns < NAMES_NS && !(young && !a->plan->events))
		return 0;
	a->names_ns = now;
	a->look_at_names = false;
	for (size_t i = 0; i < a->threads.count && r == 0; i++) {
		struct kp_thread *thread = &a->threads.thread[i];
		char comm[sizeof(thread->comm)];

		kp_proc_comm(a->target.pid, thread->tid, comm, sizeof(comm));
		if (!comm[0] || strcmp(comm, thread->comm) == 0)
			continue;
		memcpy(thread->comm, comm, sizeof(comm));
		r = put_thread(a, thread, err);
	}
	return r;
}

static uint64_t scan_interval(const struct kp_attachment *a, uint64_t now)
{
	uint64_t wanted = a->scan_cost_ns * SCAN_PART;

	if (a->look_at_modules)
		return said_interval(a);
	if (!a->plan->events && now - a->attached_ns < YOUNG_NS)
		return MS;
	if (wanted < SCAN_MIN_NS)
		return SCAN_MIN_NS;
	return wanted < SCAN_NS ? wanted : SCAN_NS;
}

/* A library that has taken the place of another one is in no PC to be seen. */
static int look_at_modules(struct kp_attachment *a, uint64_t now, struct kp_err *err)
{
	int r;

	if (now - a->scan_ns < scan_interval(a, now))
		return 0;
	a->scan_ns = now;
	a->look_at_modules = false;
	r = kp_modules_scan(&a->modules, NULL, err);
	a->scan_cost_ns = kp_now_ns() - now;
	return r;
}

/* Threads that are to be armed while every armed one sleeps: no handler will do it. */
static void work_stuck_mail_off(struct kp_attachment *a)
{
	uint64_t stopped_ns = 0;

	if (!a->flush && kp_timer_clock_stuck(a->timer, MAIL_PATIENCE_MS) == 0)
		return;
	kp_work_off_in_stop(a->target.pid, &a->memory->map, a->flush ? a->memory->signal : 0,
			    &stopped_ns, NULL);
	a->flush = false;
	a->stopped_ns += stopped_ns;
}

int kp_attachment_born(struct kp_attachment *a, pid_t tid, struct kp_err *err)
{
	a->look_at_threads = true;
	return a->live ? kp_threads_born(&a->threads, tid, thread_event, a, err) : 0;
}

bool kp_attachment_is_in_a_hurry(const struct kp_attachment *a)
{
	return a->live &&
	       ((a->event && a->event->soon) || (a->nudge && a->nudge->soon) || a->look_at_modules);
}

/*
 * Without descriptors for events user time would be in no sample. Timers need none, and see both
 * kinds of time; so those who share the memory all go over to them. What is drained by now still
 * had an owner.
 */
static void leave_events(struct kp_agent_memory *memory)
{
	for (size_t i = 0; i < memory->user_count; i++) {
		struct kp_attachment *a = memory->user[i];

		if (!a->event)
			continue;
		a->event->ops->stop(a->event);
		kp_clock_destroy(a->event);
		a->event = NULL;
	}
	__atomic_store_n(&memory->map.head->timer_mode, KP_TIMER_ALL, __ATOMIC_RELAXED);
}

int kp_attachment_turn(struct kp_attachment *a, uint64_t elapsed_ns, struct kp_err *err)
{
	uint64_t now = kp_now_ns();
	int r = look_at_threads(a, now, elapsed_ns, err);

	if (r == 0)
		r = look_at_names(a, now, err);
	if (r == 0)
		r = kp_drain_run(&a->memory->drain, elapsed_ns, false, err);
	if (r == 0)
		r = look_at_modules(a, now, err);
	if (r < 0)
		return r;
	arm_grown(a, now);
	a->timer->ops->serve(a->timer);
	if (a->event)
		a->event->ops->serve(a->event);
	if (a->event && a->event->starved)
		leave_events(a->memory);
	if (a->nudge)
		a->nudge->ops->serve(a->nudge);
	end_nudges(a);
	work_stuck_mail_off(a);
	heartbeat(a);
	return kp_outsiders_turn(&a->outsiders, now, err);
}

/* ---- closing ---- */

void kp_attachment_end(struct kp_attachment *a, uint64_t elapsed_ns)
{
	kp_outsiders_end(&a->outsiders);
	kp_drain_run(&a->memory->drain, elapsed_ns, false, NULL);
	__atomic_store_n(&a->memory->map.head->on, 0, __ATOMIC_RELEASE);
}

static void stop_clocks(struct kp_attachment *a)
{
	kp_outsiders_end(&a->outsiders);
	for (size_t i = 0; i < a->threads.count; i++)
		note_clocks(a, &a->threads.thread[i]);
	if (a->event)
		a->event->ops->stop(a->event);
	if (a->nudge)
		a->nudge->ops->stop(a->nudge);
	a->timer->ops->stop(a->timer);
	for (size_t i = 0; a->plan->events && i < a->threads.count; i++)
		kp_task_events_remove(a->plan->events, a->threads.thread[i].tid);
}

int kp_attachment_close(struct kp_attachment *a, uint64_t elapsed_ns, uint64_t *ret_stopped_ns,
			struct kp_err *err)
{
	struct kp_shm_map *map;
	bool alone;
	int r, drained;

	*ret_stopped_ns = 0;
	if (!a->live)
		return 0;
	a->live = false;
	map = &a->memory->map;
	alone = a->memory->user_count == 1;
	if (alone)
		__atomic_store_n(&map->head->on, 0, __ATOMIC_RELEASE);
	stop_clocks(a);
	r = kp_remove(a->target.pid, map, map->base, map->base + map->bytes, a->memory->signal,
		      ret_stopped_ns, err);
	drained = kp_drain_run(&a->memory->drain, elapsed_ns, alone, r < 0 ? NULL : err);
	if (r == 0 && drained == 0)
		drained = kp_compiled_put(&a->compiled, a->plan->writer, err);
	return r < 0 ? r : drained;
}

void kp_attachment_deinit(struct kp_attachment *a)
{
	kp_outsiders_deinit(&a->outsiders);
	kp_clock_destroy(a->nudge);
	kp_clock_destroy(a->event);
	kp_clock_destroy(a->timer);
	kp_threads_deinit(&a->threads);
	kp_modules_deinit(&a->modules);
	kp_compiled_deinit(&a->compiled);
	if (a->memory) {
		kp_agent_memory_remove(a->memory, a);
		if (a->memory->user_count == 0)
			kp_agent_memory_destroy(a->memory);
	}
	*a = (struct kp_attachment){ 0 };
}
