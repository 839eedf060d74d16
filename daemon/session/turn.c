/*
 * One turn over the processes of a session: kp_family_turn() of family.h. Daemon, session loop.
 */
#include "daemon/session/family.h"

#include "daemon/session/crowd.h"
#include "daemon/session/follow.h"
#include "daemon/session/process.h"

#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)
#define ACTION_CHECK_NS (100 * MS) /* whether the handler is still there */
#define SHARE_CHECK_NS (5 * MS) /* whether a program has installed its handler by now */
#define SHARE_TIME_NS (500 * MS) /* after that it is noticed by silence */
#define YOUNG_NS (30 * MS)
#define TALLY_LOOK_NS (100 * MS)
#define SOON_NS (5 * MS)
#define REST_NS (1000 * MS) /* how long a process that does nothing is not looked at */
#define SILENCE_NS (1000 * MS) /* CPU used without any sample before the handler is looked up */

/*
 * The signal is not caught any more: either the program is another one now, or it has taken the
 * signal away.
 */
static void handler_lost(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	struct kp_err err;

	if (kp_follow_exec(family, process, elapsed_ns, NULL))
		return;
	kp_process_close(family, process, elapsed_ns);
	family->target_lost |= kp_family_is_target(family, process);
	kp_fail(&err, KP_EREFUSED, "pid %d took the sampling signal for itself", (int)process->pid);
	kp_follow_refuse(family, &err);
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

static void hold_action(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	const struct kp_attachment *a = &process->attachment;
	enum kp_action held;

	if (kp_action_hold(process->pid, &a->memory->map, a->memory->signal,
			   a->target.shares_signal, &held, NULL) == 0 &&
	    held == KP_ACTION_TAKEN)
		handler_lost(family, process, elapsed_ns);
}

static void check_handler(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	struct kp_attachment *a = &process->attachment;
	uint64_t now = kp_now_ns();
	struct kp_proc_status status;
	bool young = now - a->attached_ns < YOUNG_NS;

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
	hold_action(family, process, elapsed_ns);
}

/*
 * A program that is just started and will put its own handler in place of ours (Go's runtime does
 * at its start): ours goes in front again as soon as that has happened.
 */
static void share_action(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns)
{
	const struct kp_attachment *a = &process->attachment;
	uint64_t now = kp_now_ns();

	if (!a->target.shares_signal || kp_sigaction_has_handler(&a->memory->map.head->saved) ||
	    now - process->share_check_ns < SHARE_CHECK_NS || now - a->attached_ns > SHARE_TIME_NS)
		return;
	process->share_check_ns = now;
	hold_action(family, process, elapsed_ns);
}

/* What is known of how long threads ran, and the records of those that are gone. */
static int count_time(struct kp_family *family, struct kp_process *process, struct kp_err *err)
{
	uint64_t now = kp_now_ns();
	const struct kp_task_events *events = family->plan->events;
	int r = 0;

	/* Of a thread that inherited its watch the kernel tells by itself. */
	if (!(events && kp_task_events_inherits(events)) &&
	    now - process->tally_look_ns >= TALLY_LOOK_NS) {
		process->tally_look_ns = now;
		kp_tally_look(&process->tally);
	}
	if (!kp_tally_is_waiting(&process->tally))
		return 0;
	r = kp_process_name(family, process, err);
	return r < 0 ? r : kp_tally_put_gone(&process->tally, err);
}

static bool has_ended(const struct kp_process *process)
{
	struct kp_proc_status status;

	if (process->dismissed)
		return true;
	if (process->attachment.live)
		return process->attachment.threads.count == 0;
	return kp_proc_status(process->pid, process->pid, &status, NULL) < 0 || status.state == 'Z';
}

/*
 * What has used no CPU time since its last turn has done nothing, and a look now and then is enough.
 * The kernel counts the time of what runs on another CPU at its ticks, which come more often than
 * turns do. What is said to have happened is looked at in any case, and so is who waits, if that is
 * sampled.
 */
static bool is_at_rest(struct kp_process *process)
{
	const struct kp_attachment *a = &process->attachment;
	uint64_t now = kp_now_ns(), cpu_ns = 0;
	bool said = a->look_at_threads || a->look_at_modules || a->look_at_names ||
		    process->try_again_ns || a->outsiders.waits || kp_attachment_is_in_a_hurry(a);

	if (kp_proc_cpu_ns(process->pid, &cpu_ns) && cpu_ns == process->turn_cpu_ns && !said &&
	    now - process->turn_ns < REST_NS)
		return true;
	process->turn_ns = now;
	process->turn_cpu_ns = cpu_ns;
	return false;
}

static int turn_process(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns,
			struct kp_err *err)
{
	uint64_t cpu_ns;
	int r = 0;

	if (process->ended)
		return count_time(family, process, err);
	kp_follow_retry(family, process);
	if (is_at_rest(process))
		return 0;
	if (process->attachment.live)
		r = kp_attachment_turn(&process->attachment, elapsed_ns, err);
	if (r < 0)
		return r;
	if (kp_proc_cpu_ns(process->pid, &cpu_ns) && cpu_ns > process->cpu_ns)
		process->cpu_ns = cpu_ns;
	if (!family->plan->events || process->attachment.unwatched)
		process->look_for_children = true;
	process->ended = has_ended(process);
	if (!process->ended && process->attachment.live)
		share_action(family, process, elapsed_ns);
	if (!process->ended && process->attachment.live)
		check_handler(family, process, elapsed_ns);
	if (process->ended)
		kp_tally_gone_all(&process->tally);
	return count_time(family, process, err);
}

/* Those that have ended go; the entry of the target, if there is one, stays the first. */
static void bury(struct kp_family *family, uint64_t elapsed_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < family->count; i++) {
		struct kp_process *process = family->process[i];

		if (kp_family_is_target(family, process) || !process->ended) {
			family->process[kept++] = process;
			continue;
		}
		kp_process_close(family, process, elapsed_ns);
		if (kp_tally_is_waiting(&process->tally)) {
			family->process[kept++] = process;
			continue;
		}
		family->cpu_of_ended_ns += kp_process_cpu_ns(process);
		kp_tally_deinit(&process->tally);
		kp_modules_deinit(&process->image);
		free(process);
	}
	family->count = kept;
}

static void say_full_tables(struct kp_family *family, const struct kp_attachment *a)
{
	uint32_t left_out = a->memory->tables.left_out;

	if (!left_out || family->full_tables_said)
		return;
	family->full_tables_said = true;
	kp_family_say(
		family,
		"pid %d: no room for the unwind tables of %u modules: their code is walked by "
		"frame pointers",
		(int)a->target.pid, left_out);
}

/* Each memory once, with the first process that has it. */
static int update_tables(struct kp_family *family, struct kp_err *err)
{
	int r = 0;

	for (size_t i = 0; i < family->count && r == 0; i++) {
		struct kp_attachment *a = &family->process[i]->attachment;

		if (!a->live || a->memory->user[0] != a)
			continue;
		r = kp_agent_tables_update(a->memory, family->plan->store, err);
		say_full_tables(family, a);
	}
	return r;
}

int kp_family_turn(struct kp_family *family, uint64_t elapsed_ns, struct kp_err *err)
{
	int r = kp_follow(family, elapsed_ns, err);

	for (size_t i = 0; i < family->count && r == 0; i++)
		r = turn_process(family, family->process[i], elapsed_ns, err);
	if (r == 0)
		r = update_tables(family, err);
	bury(family, elapsed_ns);
	return r;
}

bool kp_family_is_in_a_hurry(const struct kp_family *family)
{
	uint64_t soon = kp_now_ns() + SOON_NS;

	for (size_t i = 0; i < family->count; i++) {
		const struct kp_process *process = family->process[i];

		if ((process->try_again_ns && process->try_again_ns < soon) ||
		    kp_attachment_is_in_a_hurry(&process->attachment))
			return true;
	}
	return family->crowd && kp_crowd_is_busy(family->crowd);
}
