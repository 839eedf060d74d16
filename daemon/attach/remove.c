/*
 * Taking the agent out: no clock, then no handler, then no thread in the code, then no mapping.
 * Runs in the attach helper, except kp_remove() itself.
 *
 * The signal's action goes to SIG_IGN first, which makes the kernel drop every pending signal of
 * that number in all threads; only then the target's own action comes back. After that nobody can
 * enter the agent, and a thread whose PC is outside has left it for good (all signals are blocked
 * in the handler, so nothing of it can be further up a stack).
 */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/linux/children.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define PROOF_TRIES 200 /* of 5 ms */
#define LEAVE_TRIES 100 /* of 0.3 ms */
#define TIMER_ROUNDS 8
#define GONE_TRIES 20

struct remove_job {
	pid_t pid, ns_pid;
	struct kp_shm_map *map; /* in memory that the helper got by fork; NULL: cleanup */
	uint64_t base, end;
	int signal; /* 0: read it from the mapping */
	uint64_t stopped_ns;
};

static int target_io(const struct kp_stop *stop, uint64_t addr, void *data, size_t size, bool write,
		     struct kp_err *err)
{
	struct iovec local = { data, size }, remote = { (void *)(uintptr_t)addr, size };
	ssize_t n = write ? process_vm_writev(stop->tid, &local, 1, &remote, 1, 0)
			  : process_vm_readv(stop->tid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)size
		       ? 0
		       : kp_fail_errno(err, "pid %d: our memory in the target", (int)stop->pid);
}

/* Our timers among the target's. *ret is to be freed. */
static int our_timers(pid_t pid, struct kp_mail **ret, size_t *ret_count, struct kp_err *err)
{
	_cleanup_(kp_freep) struct kp_proc_timer *timers = NULL;
	_cleanup_(kp_freep) struct kp_mail *mails = NULL;
	size_t count, ours = 0;
	int r = kp_proc_timers(pid, &timers, &count, err);

	if (r < 0)
		return r;
	mails = calloc(count + 1, sizeof(*mails));
	if (!mails)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < count; i++)
		if (timers[i].value >> 32 == KP_SHM_COOKIE)
			mails[ours++] = (struct kp_mail){ .op = KP_MAIL_DISARM,
							  .tid = (uint32_t)timers[i].value,
							  .timer_id = timers[i].id };
	*ret = kp_take(mails);
	*ret_count = ours;
	return 0;
}

static int delete_one_by_one(struct kp_stop *stop, const struct kp_mail *mails, size_t count,
			     struct kp_err *err)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t args[6] = { (uint64_t)mails[i].timer_id };
		int64_t ignored;
		int r = kp_stop_syscall(stop, SYS_timer_delete, args, &ignored, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Until the kernel's own list shows none: a handler may have armed one meanwhile. */
static int delete_timers(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid,
			 struct kp_err *err)
{
	for (int round = 0; round < TIMER_ROUNDS; round++) {
		_cleanup_(kp_freep) struct kp_mail *mails = NULL;
		size_t count = 0;
		int r = our_timers(stop->pid, &mails, &count, err);

		if (r < 0 || count == 0)
			return r;
		r = map ? kp_agent_work_off(stop, map, ns_pid, mails, count, err)
			: delete_one_by_one(stop, mails, count, err);
		if (r < 0)
			return r;
	}
	return kp_fail(err, KP_EBUSY, "pid %d: timers of ours keep coming back", (int)stop->pid);
}

/* The two actions stand in our own mapping, where the agent's stack is not in use. */
static int restore_action(struct kp_stop *stop, uint64_t base, int signal, struct kp_err *err)
{
	uint64_t scratch = base + KP_SHM_STACK_OFFSET;
	uint64_t current_at = scratch + sizeof(struct kp_sigaction);
	struct kp_sigaction ignore = { .handler = (uint64_t)(uintptr_t)SIG_IGN }, current;
	uint64_t back = current_at;
	int r = target_io(stop, scratch, &ignore, sizeof(ignore), true, err);

	if (r == 0)
		r = kp_action_set(stop, signal, scratch, current_at, err);
	if (r == 0)
		r = target_io(stop, current_at, &current, sizeof(current), false, err);
	if (r < 0)
		return r;
	if (current.handler - base < KP_SHM_CODE_BYTES) /* ours, as it should be */
		back = base + KP_SHM_HEAD_OFFSET + offsetof(struct kp_shm_head, saved);
	return kp_action_set(stop, signal, back, 0, err);
}

int kp_disarm(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid, uint64_t base, int signal,
	      struct kp_err *err)
{
	int r = delete_timers(stop, map, ns_pid, err);

	return r < 0 ? r : restore_action(stop, base, signal, err);
}

static bool is_inside(const struct remove_job *job, uint64_t pc)
{
	return pc >= job->base && pc < job->base + KP_SHM_CODE_BYTES;
}

/* The thread that was picked may be in the handler: then it is let run until it has left. */
static int leave_agent(struct kp_stop *stop, const struct remove_job *job, struct kp_err *err)
{
	for (int i = 0; i < LEAVE_TRIES; i++) {
		int r;

		if (!is_inside(job, kp_cpu_pc(&stop->saved)))
			return 0;
		r = kp_stop_yield(stop, err);
		if (r < 0)
			return r;
	}
	return kp_fail(err, KP_EBUSY, "pid %d: thread %d does not leave the handler",
		       (int)stop->pid, (int)stop->tid);
}

static bool is_thread_outside(const struct remove_job *job, pid_t tid)
{
	struct kp_thread_where where;
	struct kp_stop stop;
	bool outside;
	int r;

	kp_proc_where(job->pid, tid, &where);
	if (where.place == KP_PLACE_SYSCALL || where.place == KP_PLACE_BLOCKED)
		return !is_inside(job, where.pc);
	r = kp_stop_begin(&stop, job->pid, tid, NULL);
	if (r < 0)
		return r == -KP_EGONE;
	outside = !is_inside(job, kp_cpu_pc(&stop.saved));
	kp_stop_end(&stop);
	return outside;
}

static bool are_all_outside(const struct remove_job *job)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	struct timespec nap = { .tv_nsec = 5000000 };
	size_t count;

	if (kp_proc_tasks(job->pid, &tids, &count, NULL) < 0)
		return true; /* gone */
	for (size_t i = 0, tries = 0; i < count;) {
		if (is_thread_outside(job, tids[i])) {
			i++;
		} else {
			if (++tries > PROOF_TRIES)
				return false;
			nanosleep(&nap, NULL);
		}
	}
	return true;
}

/* What a dead kitprof left says itself which signal it took. */
static int find_signal(struct kp_stop *stop, struct remove_job *job, struct kp_err *err)
{
	struct kp_shm_head head;
	int r;

	if (job->signal)
		return 0;
	r = target_io(stop, job->base + KP_SHM_HEAD_OFFSET, &head, sizeof(head), false, err);
	if (r < 0)
		return r;
	if (head.magic != KP_SHM_MAGIC || head.version != KP_SHM_VERSION || head.signal < 1 ||
	    head.signal > 64)
		return kp_fail(err, KP_EBADDATA,
			       "pid %d: the mapping at %#llx was left by another version of "
			       "kitprof; remove it "
			       "with that version",
			       (int)job->pid, (unsigned long long)job->base);
	job->signal = (int)head.signal;
	return 0;
}

static int disarm_stop(struct remove_job *job, struct kp_err *err)
{
	struct kp_stop stop;
	int r = kp_stop_any(&stop, job->pid, err);

	if (r < 0)
		return r;
	r = kp_agent_is_there(&stop, job->base, err);
	if (r == 0)
		r = leave_agent(&stop, job, err);
	if (r == 0)
		r = find_signal(&stop, job, err);
	if (r == 0)
		r = kp_disarm(&stop, job->map, job->ns_pid, job->base, job->signal, err);
	job->stopped_ns += kp_stop_end(&stop);
	return r;
}

static int unmap_stop(struct remove_job *job, struct kp_err *err)
{
	uint64_t args[6] = { job->base, job->end - job->base };
	struct kp_stop stop;
	int64_t result = 0;
	int r = kp_stop_any(&stop, job->pid, err);

	if (r < 0)
		return r;
	r = kp_agent_is_there(&stop, job->base, err);
	if (r == 0)
		r = kp_stop_syscall(&stop, SYS_munmap, args, &result, err);
	job->stopped_ns += kp_stop_end(&stop);
	if (r == 0 && result < 0)
		r = kp_fail(err, KP_ESYSTEM, "pid %d: munmap in the target failed: %s",
			    (int)job->pid, strerror((int)-result));
	return r;
}

static bool has_sharing_child(pid_t pid)
{
	_cleanup_(kp_freep) pid_t *children = NULL;
	size_t count = kp_proc_children(pid, &children);

	for (size_t i = 0; i < count; i++)
		if (kp_proc_share_memory(pid, children[i]))
			return true;
	return false;
}

/*
 * A child of vfork() has its parent's memory and, in its own table, our handler. It is let exec
 * before the handler's code goes.
 */
static bool is_memory_its_own(const struct remove_job *job)
{
	struct timespec nap = { .tv_nsec = 5000000 };

	for (int tries = 0; tries < PROOF_TRIES; tries++) {
		if (!has_sharing_child(job->pid))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

static int remove_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct remove_job *job = memory;
	int r;

	(void)ret_fd;
	r = disarm_stop(job, err);
	if (r < 0)
		return r;
	if (!are_all_outside(job))
		return kp_fail(err, KP_EBUSY, "pid %d: a thread stays in the signal handler",
			       (int)job->pid);
	if (!is_memory_its_own(job))
		return kp_fail(err, KP_EBUSY, "pid %d shares its memory with another process",
			       (int)job->pid);
	return unmap_stop(job, err);
}

/* Adds what the user can do. With the head's on at 0 the agent's timers delete themselves. */
static int left_behind(int r, pid_t pid, struct kp_err *err)
{
	struct kp_err why;

	if (!err)
		return r;
	why = *err;
	return kp_fail(err, why.code,
		       "%.300s. The agent is left in the target, where it does nothing; "
		       "`kitprof cleanup %d` removes it",
		       why.text, (int)pid);
}

/* That a thread has gone says nothing of the others. */
static int remove_all(struct remove_job *job, struct kp_err *err)
{
	int r = 0;

	for (int i = 0; i < GONE_TRIES && kp_is_injected(job->pid, job->base); i++) {
		r = kp_helper_run(remove_helper, job, NULL, err);
		if (r != -KP_EGONE)
			break;
	}
	return kp_is_injected(job->pid, job->base) ? r : 0;
}

int kp_remove(pid_t pid, struct kp_shm_map *map, uint64_t base, uint64_t end, int signal,
	      uint64_t *ret_stopped_ns, struct kp_err *err)
{
	struct remove_job *job = kp_helper_memory(sizeof(*job));
	struct kp_proc_status status;
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct remove_job){
		.pid = pid, .map = map, .base = base, .end = end, .signal = signal
	};
	if (kp_proc_status(pid, pid, &status, NULL) == 0)
		job->ns_pid = status.ns_tid;
	r = remove_all(job, err);
	if (ret_stopped_ns)
		*ret_stopped_ns = job->stopped_ns;
	kp_helper_memory_free(job, sizeof(*job));
	return r < 0 ? left_behind(r, pid, err) : 0;
}
