/*
 * Putting the agent into a stopped process: the steps between kp_stop_begin() and kp_stop_end(); the
 * memory is made in inject_memory.c. Runs in the attach helper, except kp_inject() itself.
 *
 * The order keeps the target sound at every point: memory first, the signal's action last before
 * the clocks; what fails is undone in reverse, registers last of all.
 */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/agent_call.h"
#include "daemon/attach/blob.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/attach/seccomp.h"
#include "daemon/attach/stop.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RESTORER 0x04000000u /* SA_RESTORER of asm/signal.h */
/* The helper's two sockets, the memfd, files of /proc that are looked at meanwhile. */
#define DESCRIPTORS 8

/* The signal's action; a handler that ours cannot stand in front of is given back. */
static int take_signal(struct kp_stop *stop, const struct kp_inject_job *job,
		       const struct kp_shm_map *map, struct kp_err *err)
{
	uint64_t head = job->base + KP_SHM_HEAD_OFFSET;
	uint64_t saved = head + offsetof(struct kp_shm_head, saved);
	int r = kp_action_set(stop, job->plan.signal, head + offsetof(struct kp_shm_head, ours),
			      saved, err);

	if (r < 0)
		return r;
	if (!kp_sigaction_has_handler(&map->head->saved))
		return 0;
	if (job->target.shares_signal && kp_action_is_sharable(&map->head->saved))
		return 0;
	r = kp_action_set(stop, job->plan.signal, saved, 0, err);
	if (r < 0)
		return r;
	return kp_fail(err, KP_EREFUSED, "pid %d handles %s itself", (int)stop->pid,
		       kp_signal_name(job->plan.signal));
}

int kp_inject_into(struct kp_stop *stop, struct kp_inject_job *job, int *ret_fd, struct kp_err *err)
{
	_cleanup_(kp_shm_map_deinit) struct kp_shm_map map = { .fd = -1 };
	_cleanup_(kp_closep) int fd = -1;
	int r;

	if (job->target.seccomp) {
		r = kp_seccomp_check(stop, err);
		if (r < 0)
			return r;
	}
	r = kp_inject_memory(stop, job, &map, &fd, err);
	if (r < 0)
		return r;
	r = take_signal(stop, job, &map, err);
	if (r < 0) {
		kp_inject_unmap(stop, job->base, map.bytes);
		return r;
	}
	r = kp_agent_work_off(stop, &map, job->target.ns_pid, job->mail, job->mail_count, err);
	if (r < 0) {
		/* Some thread may be in the handler already, so the mapping stays; it is inert. */
		__atomic_store_n(&map.head->on, 0, __ATOMIC_RELEASE);
		kp_disarm(stop, &map, job->target.ns_pid, job->base, job->plan.signal, NULL);
		return r;
	}
	*ret_fd = kp_take_fd(&fd);
	return 0;
}

static int inject_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct kp_inject_job *job = memory;
	struct kp_stop stop;
	int r;

	if (job->target.seccomp) {
		r = kp_seccomp_check_threads(job->target.pid, err);
		if (r < 0)
			return r;
	}
	r = kp_stop_any(&stop, job->target.pid, err);
	if (r < 0)
		return r;
	r = kp_inject_into(&stop, job, ret_fd, err);
	job->stopped_ns = kp_stop_end(&stop);
	return r;
}

struct kp_inject_job *kp_inject_job_create(const struct kp_agent_plan *plan, size_t mail_count,
					   struct kp_err *err)
{
	struct kp_inject_job *job = kp_helper_memory(kp_inject_job_bytes(mail_count));

	if (!job) {
		kp_fail_nomem(err);
		return NULL;
	}
	job->plan = *plan;
	job->mail_count = mail_count;
	job->owner_pid = getpid();
	if (kp_proc_start_time(job->owner_pid, &job->owner_start, err) < 0) {
		kp_inject_job_destroy(job);
		return NULL;
	}
	return job;
}

void kp_inject_job_destroy(struct kp_inject_job *job)
{
	if (job)
		kp_helper_memory_free(job, kp_inject_job_bytes(job->mail_count));
}

int kp_inject(const struct kp_target *target, const struct kp_agent_plan *plan,
	      struct kp_mail_list mails, struct kp_shm_map *ret, uint64_t *ret_stopped_ns,
	      struct kp_err *err)
{
	_cleanup_(kp_inject_job_destroyp) struct kp_inject_job *job =
		kp_inject_job_create(plan, mails.count, err);
	int fd = -1, r;

	if (!job)
		return err ? -(int)err->code : -KP_ENOMEM;
	/* Before the target is touched: to undo it all there would be none either. */
	if (!kp_descriptor_has_room(DESCRIPTORS))
		return kp_fail(
			err, KP_ESYSTEM,
			"pid %d: too few file descriptors are left to attach; raise ulimit -n",
			(int)target->pid);
	job->target = *target;
	if (mails.count)
		memcpy(job->mail, mails.mail, mails.count * sizeof(*mails.mail));
	r = kp_helper_run(inject_helper, job, &fd, err);
	if (r < 0) {
		kp_closep(&fd);
		return r;
	}
	if (mails.count)
		memcpy(mails.mail, job->mail, mails.count * sizeof(*mails.mail));
	*ret_stopped_ns = job->stopped_ns;
	r = kp_shm_map_init(ret, fd, job->base, &job->shape, err);
	if (r < 0)
		kp_remove(target->pid, NULL, job->base, job->base + kp_shm_bytes(&job->shape),
			  plan->signal, NULL, NULL);
	return r;
}
