/*
 * Forks and execs of a session's processes: follow.h. Daemon, session loop.
 *
 * A forked child has the agent's mapping and handler from its parent and only needs clocks. An
 * exec'd program has neither and gets them anew. Both are heard of from task events; where those
 * are not allowed, from /proc.
 */
#include "daemon/session/follow.h"

#include "daemon/session/crowd.h"
#include "daemon/session/early.h"
#include "daemon/session/process.h"

#include "common/cleanup.h"
#include "daemon/linux/children.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define RETRY_NS (1 * MS) /* an image that was not ready to be attached to */
#define TRIES_MAX 2000
#define EARLY_NS (20 * MS) /* for so long the kernel samples a new program by itself */
#define CROWD_RETRY_NS (1000 * MS) /* what stands still may do so for long */
#define CROWD_TRIES_MAX 5
#define PROCESSES_MAX 2000
#define REFUSALS_SAID 10
#define OUR_MAPPING "/memfd:" KP_SHM_NAME " (deleted)"

/*
 * Whether a child that was just born has the agent from its parent: a handler survives fork and not
 * exec. Cheaper than a look at its map, and time counts: until its clocks are armed it is not
 * sampled. An event that is opened for a child which execs just then is removed by the kernel.
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

void kp_follow_refuse(struct kp_family *family, const struct kp_err *err)
{
	family->sums.refused++;
	if (family->crowd)
		kp_crowd_hear_refusal(family->crowd, err);
	if (family->sums.refused <= REFUSALS_SAID)
		kp_family_say(family, "not sampled: %s", err->text);
	if (family->sums.refused == REFUSALS_SAID)
		kp_family_say(family, "further programs that cannot be sampled are not named");
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

/* A program may act as somebody else from its exec on (set-uid), or be kitprof. */
static bool is_still_wanted(const struct kp_family *family, pid_t pid)
{
	struct kp_proc_status status;

	return !family->crowd || kp_proc_status(pid, pid, &status, NULL) < 0 ||
	       kp_crowd_wants(family->crowd, pid, &status);
}

/* The search for a thread that can be stopped holds all others up; so in a crowd it is made rarely. */
static bool try_again(struct kp_process *process, bool rarely)
{
	if (++process->tries >= (rarely ? CROWD_TRIES_MAX : TRIES_MAX))
		return false;
	process->try_again_ns = kp_now_ns() + (rarely ? CROWD_RETRY_NS : RETRY_NS);
	return true;
}

/* A program that others trust with rights is not touched on the way, not by root either. */
static int attach_image(struct kp_family *family, struct kp_process *process, struct kp_err *err)
{
	char comm[64];

	if (!kp_target_is_privileged(process->pid))
		return kp_process_attach(family, process, err);
	kp_proc_comm(process->pid, process->pid, comm, sizeof(comm));
	family->sums.privileged++;
	return kp_fail(err, KP_EREFUSED,
		       "pid %d (%s) runs with rights of its own (a set-uid, set-gid or "
		       "file-capability program)",
		       (int)process->pid, comm);
}

/* A program image that has no agent yet. One that just begins is tried again in a moment. */
void kp_follow_image(struct kp_family *family, struct kp_process *process)
{
	struct kp_err err;
	bool loaded = is_loaded(process->pid);
	int r;

	process->try_again_ns = 0;
	process->lender = 0;
	process->dismissed = loaded && !is_still_wanted(family, process->pid);
	if (process->dismissed)
		return;
	r = loaded ? attach_image(family, process, &err)
		   : kp_fail(&err, KP_EBUSY, "pid %d does not come to run", (int)process->pid);
	process->look_for_children = true;
	if (r == 0)
		process->refused = false;
	if (r == 0 || r == -KP_EGONE)
		return;
	if (r == -KP_EBUSY && try_again(process, loaded && family->crowd))
		return;
	family->target_lost |= kp_family_is_target(family, process);
	if (!process->refused)
		kp_follow_refuse(family, &err);
	process->refused = true;
	process->refused_ns = kp_now_ns();
}

/*
 * A program that just begins. One that the kernel samples by itself has time: most that are executed
 * are short, and over before it is worth while to stop them for an agent.
 */
static void meet_image(struct kp_family *family, struct kp_process *process, bool sampled)
{
	if (sampled && !family->crowd)
		process->try_again_ns = kp_now_ns() + EARLY_NS;
	else
		kp_follow_image(family, process);
}

/* born: NULL where nobody told of it. */
static struct kp_process *meet_child(struct kp_family *family, pid_t pid,
				     const struct kp_task_event *born,
				     const struct kp_proc_status *status)
{
	struct kp_process *child = kp_family_add(family, pid, NULL);

	if (!child)
		return NULL;
	snprintf(child->comm, sizeof(child->comm), "%s", status->name);
	kp_process_begin_cpu(family, child);
	if (kp_tally_meet(&child->tally, pid, true, NULL) == 0 && born)
		kp_tally_find(&child->tally, pid)->since_ns = born->time_ns;
	if (born && born->sampled)
		kp_tally_begin_early(&child->tally, pid, true);
	return child;
}

/*
 * parent: whose agent it has inherited, if it has; may be NULL. lender: whose memory it is in after
 * vfork(), where nothing is its own until it execs; else 0.
 */
static void join(struct kp_family *family, const struct kp_process *parent, pid_t lender, pid_t pid,
		 const struct kp_proc_status *status, const struct kp_task_event *born)
{
	struct kp_process *child =
		family->count < PROCESSES_MAX ? meet_child(family, pid, born, status) : NULL;
	struct kp_target target;

	if (!child) {
		kp_passed_add(&family->passed, pid, parent ? parent->comm : "", NULL);
		return;
	}
	if (lender) {
		child->lender = lender;
		child->try_again_ns = kp_now_ns() + RETRY_NS;
		if (family->plan->events)
			kp_task_events_add(family->plan->events, pid, NULL);
		return;
	}
	if (!has_inherited(parent, status)) {
		child->parent = parent ? parent->pid : 0;
		meet_image(family, child, born && born->sampled);
		return;
	}
	target = describe_child(parent, pid, status);
	if (kp_attachment_fork(&child->attachment, &parent->attachment, &child->tally, &target,
			       NULL) < 0 &&
	    !child->attachment.live)
		kp_attachment_deinit(&child->attachment);
	child->named |= child->attachment.live;
	child->look_for_children = true;
}

/* A process that is new. *ret is filled in if it is. */
static bool is_new_member(const struct kp_family *family, pid_t pid, struct kp_proc_status *ret)
{
	/* The target may be the shell that kitprof was started from. */
	return family->follow && pid != getpid() && !kp_family_find(family, pid) &&
	       kp_proc_status(pid, pid, ret, NULL) == 0 &&
	       (!family->crowd || kp_crowd_wants(family->crowd, pid, ret));
}

/* It was born and is gone. What the kernel says of it may still be on its way: samples, an exec. */
static void child_passed(struct kp_family *family, const struct kp_process *parent, pid_t pid,
			 const struct kp_task_event *born)
{
	struct kp_proc_status status = { 0 };
	struct kp_process *child = NULL;
	pid_t parent_pid = parent ? parent->pid : 0;

	snprintf(status.name, sizeof(status.name), "%s", parent ? parent->comm : "");
	if (kp_early_is_on(family) && !family->crowd && family->count < PROCESSES_MAX)
		child = meet_child(family, pid, born, &status);
	if (child)
		child->parent = parent_pid;
	else
		kp_passed_add(&family->passed, pid, status.name, NULL);
}

static void child_came(struct kp_family *family, const struct kp_process *parent, pid_t pid,
		       const struct kp_task_event *born)
{
	struct kp_proc_status status;

	if (!family->follow || pid == getpid() || kp_family_find(family, pid))
		return;
	if (kp_proc_status(pid, pid, &status, NULL) < 0)
		child_passed(family, parent, pid, born);
	else if (!family->crowd || kp_crowd_wants(family->crowd, pid, &status))
		join(family, parent,
		     parent && kp_proc_share_memory(parent->pid, pid) ? parent->pid : 0, pid,
		     &status, born);
}

/*
 * Whose agent a process has inherited, if any. It need not be its parent's: one between the two may
 * have ended.
 */
static struct kp_process *find_testator(const struct kp_family *family, pid_t pid,
					const struct kp_proc_status *status)
{
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	const struct kp_map *map = NULL;

	for (size_t i = 0; i < family->count; i++) {
		const struct kp_attachment *a = &family->process[i]->attachment;
		struct stat st;

		if (!a->live || !(status->sig_caught & kp_signal_bit(a->memory->signal)))
			continue;
		if (!map && (kp_maps_init(&maps, pid, 0, NULL) < 0 ||
			     !(map = kp_maps_find_path(&maps, OUR_MAPPING))))
			return NULL;
		if (map->start == a->memory->map.base && fstat(a->memory->map.fd, &st) == 0 &&
		    st.st_ino == map->inode)
			return family->process[i];
	}
	return NULL;
}

void kp_follow_stranger(struct kp_family *family, pid_t pid, const struct kp_proc_status *status)
{
	join(family, find_testator(family, pid, status),
	     kp_proc_is_vforked(pid, status->ppid) ? status->ppid : 0, pid, status, NULL);
}

/* Another program now. Returns false where that is not so. */
bool kp_follow_exec(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns,
		    const struct kp_task_event *exec)
{
	if (process->attachment.live &&
	    kp_is_injected(process->pid, process->attachment.memory->map.base))
		return false;
	kp_process_close(family, process, elapsed_ns);
	kp_process_name(family, process, NULL);
	kp_tally_exec(&process->tally, exec ? exec->time_ns : 0, NULL);
	process->named = false;
	kp_early_exec(family, process);
	if (exec)
		snprintf(process->comm, sizeof(process->comm), "%s", exec->comm);
	else
		kp_proc_comm(process->pid, process->pid, process->comm, sizeof(process->comm));
	process->tries = 0;
	/* It may have been met, and refused, as what it is since this exec already. */
	if (process->refused && exec && exec->time_ns < process->refused_ns)
		return true;
	process->refused = false;
	process->lender = 0;
	meet_image(family, process, exec && exec->sampled);
	return true;
}

/* Also one that has ended and waits to be buried. */
static struct kp_process *find_with_ended(const struct kp_family *family, pid_t pid)
{
	for (size_t i = family->count; i-- > 0;)
		if (family->process[i]->pid == pid)
			return family->process[i];
	return NULL;
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

/* Of a process that nobody has seen. */
static int passed_event(struct kp_family *family, const struct kp_task_event *event,
			struct kp_err *err)
{
	uint64_t cpu_ns;
	int r = kp_passed_event(&family->passed, &family->book, event, &cpu_ns, err);

	family->cpu_of_ended_ns += cpu_ns;
	return r;
}

static int thread_ran(struct kp_family *family, const struct kp_task_event *event,
		      struct kp_err *err)
{
	struct kp_process *process = find_with_ended(family, event->pid);
	int r = process ? kp_process_ran(family, process, event, err)
			: passed_event(family, event, err);

	/* Without an agent nobody else sees it go. */
	if (process && !process->attachment.live && event->tid != event->pid)
		kp_tally_gone(&process->tally, event->tid);
	return r;
}

/* Without an agent it is known by its task events alone; those end when it gains other rights. */
static void thread_went(struct kp_family *family, struct kp_process *process,
			const struct kp_task_event *event)
{
	process->attachment.look_at_threads = true;
	if (process->attachment.live || event->tid != event->pid)
		return;
	if (kp_task_events_add(family->plan->events, event->pid, NULL) == 0)
		kp_tally_look(&process->tally);
}

static int thread_came(struct kp_family *family, struct kp_process *process,
		       const struct kp_task_event *born, struct kp_err *err)
{
	return born->sampled ? kp_early_born(family, process, born->tid, err)
			     : kp_attachment_born(&process->attachment, born->tid, err);
}

static int task_event(void *ctx, const struct kp_task_event *event, struct kp_err *err)
{
	struct turn *turn = ctx;
	struct kp_family *family = turn->family;
	struct kp_process *process = kp_family_find(family, event->pid);

	switch (event->type) {
	case KP_TASK_FORK:
		if (event->pid == event->parent_pid)
			return process ? thread_came(family, process, event, err) : 0;
		child_came(family, kp_family_find(family, event->parent_pid), event->pid, event);
		break;
	case KP_TASK_LOST:
		look_at_all(family);
		break;
	case KP_TASK_RAN:
		return thread_ran(family, event, err);
	case KP_TASK_EXEC:
		if (!process)
			return passed_event(family, event, err);
		kp_follow_exec(family, process, turn->elapsed_ns, event);
		break;
	case KP_TASK_EXIT:
		if (process)
			thread_went(family, process, event);
		break;
	case KP_TASK_MMAP:
		if (!process)
			break;
		process->attachment.look_at_modules = true;
		return kp_early_mapped(family, process, event->map, err);
	case KP_TASK_SAMPLE:
		process = find_with_ended(family, event->pid);
		return process ? kp_early_sample(family, process, event, err) : 0;
	case KP_TASK_NAME:
		if (process)
			process->attachment.look_at_names = true;
		break;
	}
	return 0;
}

/* The window is over: nothing is attached to any more, but what has ended has its time. */
static int last_event(void *ctx, const struct kp_task_event *event, struct kp_err *err)
{
	struct kp_family *family = ctx;
	struct kp_process *parent = kp_family_find(family, event->parent_pid);

	if (event->type == KP_TASK_RAN)
		return thread_ran(family, event, err);
	if (event->type == KP_TASK_FORK && event->pid != event->parent_pid && family->follow)
		return kp_passed_add(&family->passed, event->pid, parent ? parent->comm : "", err);
	return event->type == KP_TASK_EXEC ? passed_event(family, event, err) : 0;
}

int kp_follow_last(struct kp_family *family, struct kp_err *err)
{
	return family->plan->events
		       ? kp_task_events_read(family->plan->events, last_event, family, err)
		       : 0;
}

static void find_children(struct kp_family *family, struct kp_process *process)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t n = kp_proc_children(process->pid, &pids);

	process->look_for_children = false;
	for (size_t i = 0; i < n; i++) {
		struct kp_proc_status status;

		if (is_new_member(family, pids[i], &status))
			kp_follow_stranger(family, pids[i], &status);
	}
}

static void find_all_children(struct kp_family *family)
{
	/* Those that are found now have children of their own to be looked for next time. */
	size_t count = family->follow ? family->count : 0;
	bool all = !family->plan->events && !family->crowd;

	for (size_t i = 0; i < count; i++)
		if (all || family->process[i]->look_for_children)
			find_children(family, family->process[i]);
}

void kp_follow_retry(struct kp_family *family, struct kp_process *process)
{
	if (process->try_again_ns && kp_now_ns() >= process->try_again_ns) {
		if (process->lender && kp_proc_share_memory(process->lender, process->pid))
			process->try_again_ns = kp_now_ns() + RETRY_NS;
		else
			kp_follow_image(family, process);
	}
}

int kp_follow(struct kp_family *family, uint64_t elapsed_ns, struct kp_err *err)
{
	struct turn turn = { family, elapsed_ns };
	int r = 0;

	if (family->plan->events)
		r = kp_task_events_read(family->plan->events, task_event, &turn, err);
	find_all_children(family);
	if (family->crowd)
		kp_crowd_turn(family);
	return r;
}
