/*
 * Putting the agent into a stopped process: the steps between kp_stop_begin() and kp_stop_end().
 * Runs in the attach helper, except kp_inject() and kp_inject_mails() themselves.
 *
 * The order keeps the target sound at every point: memory first, the signal's action last before
 * the clocks; what fails is undone in reverse, registers last of all. Code is never writable and
 * executable at once: its content comes through the helper's own view of the memfd.
 */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/agent_call.h"
#include "daemon/attach/blob.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/attach/seccomp.h"
#include "daemon/attach/stop.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MEMFD_EXEC 0x10u /* MFD_EXEC of linux/memfd.h, kernel 6.3 */
#define KERNEL_SIGSET_BYTES 8
#define RESTORER 0x04000000u /* SA_RESTORER of asm/signal.h */

/* A remote call whose failure is an error; what names it in the message. */
static int call(struct kp_stop *stop, const char *what, long nr, const uint64_t args[6],
		int64_t *ret, struct kp_err *err)
{
	int r = kp_stop_syscall(stop, nr, args, ret, err);

	if (r < 0)
		return r;
	if (*ret >= -4095 && *ret < 0)
		return kp_fail(err, KP_ESYSTEM, "pid %d: %s in the target failed: %s",
			       (int)stop->pid, what, strerror((int)-*ret));
	return 0;
}

static int remote_mmap(struct kp_stop *stop, const char *what, uint64_t addr, uint64_t size,
		       int prot, int flags, int fd, uint64_t offset, uint64_t *ret,
		       struct kp_err *err)
{
	uint64_t args[6] = { addr,  size, (uint64_t)prot, (uint64_t)flags, (uint64_t)(int64_t)fd,
			     offset };
	int64_t result;
	int r = call(stop, what, SYS_mmap, args, &result, err);

	if (r == 0 && ret)
		*ret = (uint64_t)result;
	return r;
}

static void remote_close(struct kp_stop *stop, int fd)
{
	uint64_t args[6] = { (uint64_t)fd };
	int64_t ignored;

	kp_stop_syscall(stop, SYS_close, args, &ignored, NULL);
}

static void remote_munmap(struct kp_stop *stop, uint64_t base, uint64_t size)
{
	uint64_t args[6] = { base, size };
	int64_t ignored;

	kp_stop_syscall(stop, SYS_munmap, args, &ignored, NULL);
}

/* The name stands in our own reserved memory: nothing of the target's is written. */
static int remote_memfd(struct kp_stop *stop, uint64_t base, int *ret, struct kp_err *err)
{
	char name[] = KP_SHM_NAME;
	struct iovec local = { name, sizeof(name) };
	struct iovec remote = { (void *)(uintptr_t)base, sizeof(name) };
	uint64_t args[6] = { base, MFD_CLOEXEC | MEMFD_EXEC };
	int64_t fd;
	int r;

	if (process_vm_writev(stop->tid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(name))
		return kp_fail_errno(err, "pid %d: writing to our memory in the target",
				     (int)stop->pid);
	r = kp_stop_syscall(stop, SYS_memfd_create, args, &fd, err);
	if (r == 0 && fd == -EINVAL) {
		args[1] = MFD_CLOEXEC; /* a kernel before 6.3 */
		r = kp_stop_syscall(stop, SYS_memfd_create, args, &fd, err);
	}
	if (r < 0)
		return r;
	if (fd < 0)
		return kp_fail(err, KP_ESYSTEM, "pid %d: memfd_create in the target failed: %s",
			       (int)stop->pid, strerror((int)-fd));
	*ret = (int)fd;
	return 0;
}

static int open_targets_fd(struct kp_stop *stop, int target_fd, int *ret, struct kp_err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", (int)stop->pid, (int)stop->tid,
		 target_fd);
	*ret = open(path, O_RDWR | O_CLOEXEC);
	return *ret >= 0 ? 0 : kp_fail_errno(err, "%s", path);
}

/* Fills the shared memory in: code, head, empty ring. */
static void fill(struct kp_shm_map *map, const struct kp_inject_job *job)
{
	const struct kp_agent_plan *plan = &job->plan;
	struct kp_agent_header header;
	struct kp_shm_head *head = map->head;

	memcpy(map->data, kp_agent_blob, kp_agent_blob_size);
	memcpy(&header, kp_agent_blob, sizeof(header));
	*head = (struct kp_shm_head){
		.magic = KP_SHM_MAGIC,
		.version = KP_SHM_VERSION,
		.signal = (uint32_t)plan->signal,
		.depth = plan->depth,
		.period_ns = plan->period_ns,
		.timer_mode = plan->timer_mode,
		.owner_pid = (uint32_t)job->owner_pid,
		.owner_start = job->owner_start,
		.base = map->base,
		.bytes = map->bytes,
		.on = 1,
		.lease = plan->lease,
	};
	head->ours = (struct kp_sigaction){
		.handler = map->base + header.handler_off,
		.flags =
			SA_SIGINFO | SA_RESTART | SA_ONSTACK | (header.restorer_off ? RESTORER : 0),
		.restorer = header.restorer_off ? map->base + header.restorer_off : 0,
		.mask = ~UINT64_C(0),
	};
	kp_ring_format(map->ring, map->cell_count, map->depth, plan->ticket_max);
}

/* Memory in the target: one memfd, code R-X, the rest RW. *ret_fd: our descriptor of it. */
static int map_memory(struct kp_stop *stop, struct kp_inject_job *job, int target_fd, int our_fd,
		      struct kp_shm_map *map, struct kp_err *err)
{
	uint64_t bytes = kp_shm_bytes(job->plan.cell_count, job->plan.depth);
	int r;

	if (ftruncate(our_fd, (off_t)bytes) != 0)
		return kp_fail_errno(err, "pid %d: %llu bytes of shared memory", (int)stop->pid,
				     (unsigned long long)bytes);
	r = kp_shm_map_init(map, dup(our_fd), job->base, job->plan.cell_count, job->plan.depth,
			    err);
	if (r < 0)
		return r;
	fill(map, job);
	r = remote_mmap(stop, "mmap of the ring", job->base + KP_SHM_HEAD_OFFSET,
			bytes - KP_SHM_HEAD_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			target_fd, KP_SHM_HEAD_OFFSET, NULL, err);
	if (r < 0)
		return r;
	return remote_mmap(stop, "mmap of the agent's code (a security policy may forbid it)",
			   job->base, KP_SHM_CODE_BYTES, PROT_READ | PROT_EXEC,
			   MAP_SHARED | MAP_FIXED, target_fd, 0, NULL, err);
}

static int set_action(struct kp_stop *stop, const struct kp_inject_job *job, uint64_t new_action,
		      uint64_t old_action, struct kp_err *err)
{
	uint64_t args[6] = { (uint64_t)job->plan.signal, new_action, old_action,
			     KERNEL_SIGSET_BYTES };
	int64_t ignored;

	return call(stop, "rt_sigaction", SYS_rt_sigaction, args, &ignored, err);
}

/* The signal's action; a handler that ours cannot stand in front of is given back. */
static int take_signal(struct kp_stop *stop, const struct kp_inject_job *job,
		       const struct kp_shm_map *map, struct kp_err *err)
{
	uint64_t head = job->base + KP_SHM_HEAD_OFFSET;
	uint64_t saved = head + offsetof(struct kp_shm_head, saved);
	int r = set_action(stop, job, head + offsetof(struct kp_shm_head, ours), saved, err);

	if (r < 0)
		return r;
	if (map->head->saved.handler <= (uint64_t)(uintptr_t)SIG_IGN)
		return 0;
	if (job->target.shares_signal && kp_action_is_sharable(&map->head->saved))
		return 0;
	r = set_action(stop, job, saved, 0, err);
	if (r < 0)
		return r;
	return kp_fail(err, KP_EREFUSED, "pid %d handles %s itself", (int)stop->pid,
		       kp_signal_name(job->plan.signal));
}

int kp_inject_into(struct kp_stop *stop, struct kp_inject_job *job, int *ret_fd, struct kp_err *err)
{
	uint64_t bytes = kp_shm_bytes(job->plan.cell_count, job->plan.depth);
	_cleanup_(kp_shm_map_deinit) struct kp_shm_map map = { .fd = -1 };
	_cleanup_(kp_closep) int our_fd = -1;
	int target_fd = -1, r;

	if (job->target.seccomp) {
		r = kp_seccomp_check(stop, err);
		if (r < 0)
			return r;
	}
	r = remote_mmap(stop, "mmap", 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0, &job->base, err);
	if (r < 0)
		return r;
	r = remote_memfd(stop, job->base, &target_fd, err);
	if (r == 0)
		r = open_targets_fd(stop, target_fd, &our_fd, err);
	if (r == 0)
		r = map_memory(stop, job, target_fd, our_fd, &map, err);
	if (target_fd >= 0)
		remote_close(stop, target_fd);
	if (r == 0)
		r = take_signal(stop, job, &map, err);
	if (r < 0) {
		remote_munmap(stop, job->base, bytes);
		return r;
	}
	r = kp_agent_work_off(stop, &map, job->target.ns_pid, job->mail, job->mail_count, err);
	if (r < 0) {
		/* Some thread may be in the handler already, so the mapping stays; it is inert. */
		__atomic_store_n(&map.head->on, 0, __ATOMIC_RELEASE);
		kp_disarm(stop, &map, job->target.ns_pid, job->base, job->plan.signal, NULL);
		return r;
	}
	*ret_fd = kp_take_fd(&our_fd);
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
	return kp_shm_map_init(ret, fd, job->base, plan->cell_count, plan->depth, err);
}
