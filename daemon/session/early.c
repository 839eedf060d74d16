/*
 * Samples of those that have no clock of ours yet: early.h. Daemon, session loop.
 *
 * Whoever was born is sampled by the kernel alone for the first 10 ms, then its own clocks are
 * started and what the kernel still takes of it is passed over. What was executed is until the agent
 * is in; the modules of such a program are as the kernel tells of them.
 */
#include "daemon/session/early.h"

#include "daemon/attach/cpu.h"
#include "daemon/drain/slice.h"
#include "daemon/session/process.h"

#define TIME_NS UINT64_C(10000000) /* between TIME records */

bool kp_early_is_on(const struct kp_family *family)
{
	return family->plan->early_period_ns;
}

int kp_early_born(struct kp_family *family, struct kp_process *process, pid_t tid,
		  struct kp_err *err)
{
	struct kp_raw_thread thread = { .pid = (uint32_t)process->pid,
					.tid = (uint32_t)tid,
					.comm = kp_raw_string(process->comm) };
	const struct kp_attachment *a = &process->attachment;
	int r;

	/* Somebody has found it already, and its clocks run. */
	if (kp_tally_find(&process->tally, tid))
		return kp_attachment_born(&process->attachment, tid, err);
	r = kp_tally_meet(&process->tally, tid, false, err);
	if (r == 0) {
		kp_tally_begin_early(&process->tally, tid, true);
		r = kp_attachment_born(&process->attachment, tid, err);
	}
	if (r < 0 || (a->live && kp_threads_find(&a->threads, tid)))
		return r;
	/* It has ended already, or nobody looks at it. */
	if (a->live)
		kp_tally_gone(&process->tally, tid);
	r = kp_process_name(family, process, err);
	return r < 0 ? r : kp_raw_put_thread(family->plan->writer, &thread, err);
}

/* ---- modules ---- */

void kp_early_exec(struct kp_family *family, struct kp_process *process)
{
	const struct kp_attachment_plan *plan = family->plan;

	kp_modules_deinit(&process->image);
	process->parent = 0;
	if (!kp_early_is_on(family))
		return;
	kp_modules_init(&process->image, process->pid, plan->writer, plan->pins);
	process->image.found = kp_agent_tables_found;
	process->image.found_ctx = plan->store;
	kp_tally_begin_early(&process->tally, process->pid, false);
}

int kp_early_mapped(struct kp_family *family, struct kp_process *process, const struct kp_map *map,
		    struct kp_err *err)
{
	int r;

	if (!map || !process->image.writer || process->attachment.live)
		return 0;
	r = kp_process_name(family, process, err);
	return r < 0 ? r : kp_modules_add(&process->image, map, err);
}

/* Those of a child that nobody has looked at are its parent's. NULL: not known. */
static const struct kp_modules *modules_of(const struct kp_family *family,
					   const struct kp_process *process)
{
	const struct kp_attachment *a = &process->attachment;
	const struct kp_process *parent;

	if (a->live)
		return a->modules.count ? &a->modules : &a->memory->user[0]->modules;
	if (process->image.writer)
		return &process->image;
	parent = process->parent ? kp_family_find(family, process->parent) : NULL;
	return parent && parent != process ? modules_of(family, parent) : NULL;
}

/* ---- samples ---- */

static int put_clock(struct kp_family *family, struct kp_err *err)
{
	struct kp_attachment_plan *plan = family->plan;
	struct kp_raw_clock clock = {
		.source = KP_SOURCE_EARLY,
		.period_ns = plan->early_period_ns,
		.kernel = kp_task_events_sampling(plan->events).kernel,
		.name = kp_raw_string("inherited"),
	};

	if (family->early_listed)
		return 0;
	family->early_listed = true;
	return kp_raw_put_clock(plan->writer, &clock, err);
}

static int put_time(struct kp_family *family, uint64_t time_ns, struct kp_err *err)
{
	uint64_t start_ns = family->plan->start_ns;
	struct kp_raw_time time = { time_ns - start_ns };

	if (family->early_time_ns && time_ns - family->early_time_ns < TIME_NS)
		return 0;
	family->early_time_ns = time_ns;
	return kp_raw_put_time(family->plan->writer, &time, err);
}

static void walk(const struct kp_family *family, const struct kp_process *process,
		 const struct kp_ring_record *slice, struct kp_ring_record *ret)
{
	const struct kp_modules *modules = modules_of(family, process);
	const struct kp_attachment_plan *plan = family->plan;
	struct kp_slice_walk how = { .arch = kp_cpu_arch(), .depth = plan->depth };

	if (modules && plan->store) {
		how.find_rule = kp_agent_tables_find_in;
		how.find_ctx = (void *)(uintptr_t)modules;
	}
	kp_slice_walk(&how, slice, ret);
}

/* Pid, tid and weight; and what it refers to is in the file. */
static int complete(struct kp_family *family, struct kp_process *process,
		    const struct kp_ring_record *record, struct kp_raw_sample *sample,
		    struct kp_err *err)
{
	if (process->attachment.live)
		return kp_attachment_complete(&process->attachment, record, (pid_t)record->origin,
					      sample, err);
	sample->pid = (uint32_t)process->pid;
	sample->tid = record->origin;
	sample->weight_ns = family->plan->early_period_ns;
	return kp_process_name(family, process, err);
}

static int put(struct kp_family *family, struct kp_process *process,
	       const struct kp_ring_record *slice, struct kp_err *err)
{
	uint64_t room[sizeof(struct kp_ring_record) / 8 + KP_DEPTH_MAX];
	struct kp_ring_record *record = (struct kp_ring_record *)(void *)room;
	struct kp_raw_sample sample;
	int r;

	walk(family, process, slice, record);
	sample = (struct kp_raw_sample){ .depth = record->depth,
					 .source = record->source,
					 .walk_end = record->walk_end,
					 .how = (uint16_t)(record->how & KP_HOW_ALL),
					 .pc = record->pc };
	r = complete(family, process, record, &sample, err);
	return r < 0 ? r : kp_raw_put_sample(family->plan->writer, &sample, err);
}

int kp_early_sample(struct kp_family *family, struct kp_process *process,
		    const struct kp_task_event *event, struct kp_err *err)
{
	struct kp_tally_thread *thread = kp_tally_find_running(&process->tally, event->tid);
	struct kp_raw_lost *lost = &family->sums.lost;
	int r;

	/* A child of vfork() runs in memory that is not its own. */
	if (!event->sample || !thread || event->time_ns >= thread->early_until_ns ||
	    process->lender || !family->plan->start_ns || event->time_ns < family->plan->start_ns)
		return 0;
	thread->clocked = true;
	lost->taken++;
	if (family->plan->left == 0) {
		lost->dropped_cap++;
		return 0;
	}
	family->plan->left--;
	lost->kept++;
	r = put_clock(family, err);
	if (r == 0)
		r = put_time(family, event->time_ns, err);
	return r < 0 ? r : put(family, process, event->sample, err);
}
