/*
 * The task-clock clock: clock.h. Runs in the daemon; nothing of it is in the target.
 *
 * perf_event_open(2): a software event that counts the nanoseconds a thread runs, overflowing each
 * period; F_SETSIG and F_SETOWN_EX direct the overflow's signal to the thread itself, whose siginfo
 * then has si_code POLL_IN and si_fd = our descriptor. exclude_kernel: an overflow that finds the
 * thread in the kernel raises nothing, so no system call is interrupted. remove_on_exec: no signal
 * reaches another program. inherit is off: with it the signals go to the main thread.
 */
#include "daemon/clock/clock.h"
#include "daemon/clock/thread_table.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define PATIENCE_MAX_NS UINT64_C(1000000000)
#define BIRTH_NS UINT64_C(20000000) /* a thread that blocks signals for longer does not just start */

struct task_clock {
	struct kp_clock base;
	struct kp_thread_table threads;
	pid_t pid;
	int signal;
};

static int open_event(pid_t tid, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = period_ns,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.wakeup_events = 1,
		.remove_on_exec = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int explain(pid_t tid, struct kp_err *err)
{
	_cleanup_(kp_freep) char *paranoid = NULL;
	int saved = errno;

	if (saved == ESRCH)
		return kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid);
	if ((saved == EACCES || saved == EPERM) &&
	    kp_proc_read("/proc/sys/kernel/perf_event_paranoid", &paranoid, NULL, NULL) == 0)
		return kp_fail(err, KP_ESYSTEM,
			       "perf events are not allowed (kernel.perf_event_paranoid is %d; 2 or less, root or "
			       "CAP_PERFMON would allow them)",
			       atoi(paranoid));
	errno = saved;
	return kp_fail_errno(err, "perf_event_open(task-clock) for thread %d", (int)tid);
}

int kp_task_clock_probe(struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = open_event(0, 1000000000);

	return fd >= 0 ? 0 : explain(0, err);
}

/* The signal is directed before the event is enabled. */
static int direct_signal(int fd, pid_t tid, int signal)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = tid };

	return fcntl(fd, F_SETFL, O_ASYNC) == 0 && fcntl(fd, F_SETSIG, signal) == 0 &&
			       fcntl(fd, F_SETOWN_EX, &owner) == 0 &&
			       ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0
		       ? 0
		       : -1;
}

/*
 * A thread that blocks the signal is not armed: the signal would stay pending, and an exec would
 * hand it to the next program.
 */
static bool blocks_signal(const struct task_clock *c, pid_t tid)
{
	struct kp_proc_status status;

	return kp_proc_status(c->pid, tid, &status, NULL) == 0 &&
	       status.sig_blocked & kp_signal_bit(c->signal);
}

/*
 * It is asked again: libc blocks all signals in a thread until it has started. Less and less often,
 * for some do so as long as they live.
 */
static void wait_longer(struct task_clock *c, struct kp_clock_thread *thread)
{
	uint64_t now = kp_now_ns(), age = now - thread->asked_ns;

	thread->state = KP_THREAD_WAITING;
	c->base.soon |= age < BIRTH_NS;
	thread->again_ns = now + (age < PATIENCE_MAX_NS ? age : PATIENCE_MAX_NS);
}

static int start(struct task_clock *c, struct kp_clock_thread *thread, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;

	if (blocks_signal(c, thread->tid)) {
		wait_longer(c, thread);
		return kp_fail(err, KP_EREFUSED, "thread %d blocks the sampling signal", (int)thread->tid);
	}
	thread->state = KP_THREAD_FAILED;
	fd = open_event(thread->tid, c->base.period_ns);
	if (fd < 0 || direct_signal(fd, thread->tid, c->signal) != 0)
		return explain(thread->tid, err);
	thread->fd = kp_take_fd(&fd);
	thread->state = KP_THREAD_ARMED;
	c->base.armed++;
	return 0;
}

static int arm(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err)
{
	struct task_clock *c = (struct task_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_add(&c->threads);
	int r;

	if (!thread)
		return kp_fail_nomem(err);
	thread->tid = tid;
	thread->ns_tid = ns_tid;
	thread->asked_ns = kp_now_ns();
	r = start(c, thread, err);
	clock->failed += r < 0 && r != -KP_EGONE;
	return r;
}

static void forget(struct kp_clock *clock, pid_t tid)
{
	struct task_clock *c = (struct task_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	/* Blocked signals for all of a short life, as a vfork()ed child does until it execs. */
	if (thread->state == KP_THREAD_WAITING && kp_now_ns() - thread->asked_ns < BIRTH_NS)
		clock->failed--;
	kp_closep(&thread->fd);
	kp_thread_table_remove(&c->threads, thread);
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct task_clock *c = (const struct task_clock *)clock;

	for (size_t i = 0; i < c->threads.count && origin <= INT32_MAX; i++)
		if (c->threads.thread[i].fd == (int)origin)
			return c->threads.thread[i].tid;
	return 0;
}

static void serve(struct kp_clock *clock)
{
	struct task_clock *c = (struct task_clock *)clock;

	clock->soon = false;
	for (size_t i = 0; i < c->threads.count; i++) {
		struct kp_clock_thread *thread = &c->threads.thread[i];

		if (thread->state == KP_THREAD_WAITING && kp_now_ns() >= thread->again_ns)
			clock->failed -= start(c, thread, NULL) == 0;
	}
}

/* Disabled, not closed: the numbers of the descriptors still name threads. */
static void stop(struct kp_clock *clock)
{
	struct task_clock *c = (struct task_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		if (c->threads.thread[i].state == KP_THREAD_ARMED)
			ioctl(c->threads.thread[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

static void destroy(struct kp_clock *clock)
{
	struct task_clock *c = (struct task_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		kp_closep(&c->threads.thread[i].fd);
	kp_thread_table_deinit(&c->threads);
	free(c);
}

static const struct kp_clock_ops task_clock_ops = {
	.name = "task-clock",
	.source = KP_SOURCE_EVENT,
	.arm = arm,
	.forget = forget,
	.owner = owner,
	.serve = serve,
	.stop = stop,
	.destroy = destroy,
};

int kp_task_clock_create(pid_t pid, int signal, uint64_t period_ns, struct kp_clock **ret,
			 struct kp_err *err)
{
	struct task_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &task_clock_ops;
	c->base.period_ns = period_ns;
	c->pid = pid;
	c->signal = signal;
	*ret = &c->base;
	return 0;
}
