/*
 * The clocks that are perf events: clock.h. Runs in the daemon; nothing of it is in the target.
 *
 * An event (perf_event.h) overflows each period; F_SETSIG and F_SETOWN_EX direct the overflow's
 * signal to the thread itself, whose siginfo then has si_code POLL_IN and si_fd = our descriptor.
 *
 * The first expiration comes a whole period after the start, it is not random as a timer's is: the
 * kernel takes one number for the first period and the others, and changing it later
 * (PERF_EVENT_IOC_PERIOD) throws away what is left of the running one.
 */
#include "daemon/clock/clock.h"
#include "daemon/clock/perf_event.h"
#include "daemon/clock/thread_table.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATIENCE_MAX_NS UINT64_C(1000000000)
#define BIRTH_NS UINT64_C(20000000) /* who runs and blocks signals for longer, does not start */

struct event_clock {
	struct kp_clock base;
	struct kp_thread_table threads;
	struct kp_event_period period;
	pid_t pid;
	uint64_t agent; /* address of its mapping in the target */
	int signal;
};

/* Whom the signal is for; it is not sent yet (send_signals()). */
static int direct_signal(int fd, pid_t tid, int signal)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = tid };

	return fcntl(fd, F_SETSIG, signal) == 0 && fcntl(fd, F_SETOWN_EX, &owner) == 0 ? 0 : -1;
}

static int send_signals(int fd)
{
	return fcntl(fd, F_SETFL, O_ASYNC);
}

/* libc blocks all signals in a thread until it has started. */
static bool is_young(const struct kp_clock_thread *thread)
{
	return kp_now_ns() - thread->asked_ns < BIRTH_NS;
}

/* Since it is counted; where it is not, it may have. */
static bool has_run(const struct kp_clock_thread *thread)
{
	uint64_t count[3]; /* read_format of perf_event.c */

	return thread->fd < 0 || read(thread->fd, count, sizeof(count)) != sizeof(count) ||
	       count[0];
}

/*
 * It is asked again: soon if it just starts, which on a busy machine it has to wait for; else less
 * and less often, for some block the signal as long as they live.
 */
static void wait_longer(struct event_clock *c, struct kp_clock_thread *thread, char state)
{
	uint64_t now = kp_now_ns(), age = now - thread->asked_ns;
	bool ran = has_run(thread), starts = is_young(thread) || (state == 'R' && !ran);

	thread->state = KP_THREAD_WAITING;
	thread->again_ns = now;
	c->base.soon |= starts;
	if (starts)
		return;
	thread->again_ns += age < PATIENCE_MAX_NS ? age : PATIENCE_MAX_NS;
	if (ran) {
		kp_closep(&thread->fd);
		thread->fd = -1;
	}
}

/*
 * A thread that blocks the signal gets none: it would stay pending, and an exec would hand it to the
 * next program.
 */
static bool takes_signals(struct event_clock *c, struct kp_clock_thread *thread)
{
	struct kp_proc_status status;

	if (kp_proc_status(c->pid, thread->tid, &status, NULL) < 0 ||
	    !(status.sig_blocked & kp_signal_bit(c->signal)))
		return true;
	wait_longer(c, thread, status.state);
	return false;
}

/*
 * Whether the thread executes the program that has the handler. Asked between opening the event and
 * enabling it: an exec before the opening has put other memory there by now, and one that comes
 * later takes the event away. So no signal reaches a program that has no handler for it.
 */
static bool has_agent(const struct event_clock *c, pid_t tid)
{
	uint32_t magic = 0;
	struct iovec local = { &magic, sizeof(magic) };
	struct iovec remote = { (void *)(uintptr_t)(c->agent + KP_SHM_HEAD_OFFSET +
						    offsetof(struct kp_shm_head, magic)),
				sizeof(magic) };

	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(magic) &&
	       magic == KP_SHM_MAGIC;
}

/* The event counts from here on. */
static int begin_to_count(struct event_clock *c, struct kp_clock_thread *thread, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;

	if (thread->fd >= 0)
		return 0;
	fd = kp_perf_event_open(c->period.kind, thread->tid, c->period.count);
	c->base.starved |= fd < 0 && errno == EMFILE;
	if (fd < 0 || direct_signal(fd, thread->tid, c->signal) != 0)
		return kp_perf_event_explain(c->period.kind, thread->tid, err);
	if (!has_agent(c, thread->tid))
		return kp_fail(err, KP_EGONE, "thread %d executes another program",
			       (int)thread->tid);
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
		return kp_perf_event_explain(c->period.kind, thread->tid, err);
	thread->fd = kp_take_fd(&fd);
	return 0;
}

/*
 * A thread that is being born is counted at once, and gets signals when it is seen to take them:
 * else it would begin a period only then, which is half of a short life.
 */
static int start(struct event_clock *c, struct kp_clock_thread *thread, struct kp_err *err)
{
	int r = 0;

	if (is_young(thread))
		r = begin_to_count(c, thread, err);
	if (r == 0 && !takes_signals(c, thread))
		return kp_fail(err, KP_EREFUSED, "thread %d blocks the sampling signal",
			       (int)thread->tid);
	thread->state = KP_THREAD_FAILED;
	if (r == 0)
		r = begin_to_count(c, thread, err);
	if (r == 0 && send_signals(thread->fd) != 0)
		r = kp_perf_event_explain(c->period.kind, thread->tid, err);
	if (r < 0)
		return r;
	thread->state = KP_THREAD_ARMED;
	c->base.armed++;
	return 0;
}

static int arm(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err)
{
	struct event_clock *c = (struct event_clock *)clock;
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
	struct event_clock *c = (struct event_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	/* Blocked signals for all of a short life, as a vfork()ed child does until it execs. */
	if (thread->state == KP_THREAD_WAITING && is_young(thread))
		clock->failed--;
	kp_closep(&thread->fd);
	kp_thread_table_remove(&c->threads, thread);
}

static void release(struct kp_clock *clock, pid_t tid)
{
	struct event_clock *c = (struct event_clock *)clock;
	struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	if (!thread)
		return;
	clock->failed -= thread->state != KP_THREAD_ARMED;
	thread->state = KP_THREAD_LEAVING; /* nothing that forget() would take back once more */
	forget(clock, tid);
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct event_clock *c = (const struct event_clock *)clock;

	for (size_t i = 0; i < c->threads.count && origin <= INT32_MAX; i++)
		if (c->threads.thread[i].fd == (int)origin)
			return c->threads.thread[i].tid;
	return 0;
}

static void serve_waiting(struct event_clock *c, struct kp_clock_thread *thread)
{
	if (kp_now_ns() < thread->again_ns)
		return;
	if (is_young(thread) && !has_run(thread))
		c->base.soon = true; /* nothing has changed */
	else
		c->base.failed -= start(c, thread, NULL) == 0;
}

static void serve(struct kp_clock *clock)
{
	struct event_clock *c = (struct event_clock *)clock;

	clock->soon = false;
	for (size_t i = 0; i < c->threads.count; i++)
		if (c->threads.thread[i].state == KP_THREAD_WAITING)
			serve_waiting(c, &c->threads.thread[i]);
}

/* Disabled, not closed: the numbers of the descriptors still name threads. */
static void stop(struct kp_clock *clock)
{
	struct event_clock *c = (struct event_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		if (c->threads.thread[i].state == KP_THREAD_ARMED)
			ioctl(c->threads.thread[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

static void destroy(struct kp_clock *clock)
{
	struct event_clock *c = (struct event_clock *)clock;

	for (size_t i = 0; i < c->threads.count; i++)
		kp_closep(&c->threads.thread[i].fd);
	kp_thread_table_deinit(&c->threads);
	free(c);
}

bool kp_event_clock_ran(const struct kp_clock *clock, pid_t tid, uint64_t *ret_ns)
{
	const struct event_clock *c = (const struct event_clock *)clock;
	const struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	return thread && thread->state == KP_THREAD_ARMED && kp_perf_event_ran(thread->fd, ret_ns);
}

bool kp_event_clock_is_blocked(const struct kp_clock *clock, pid_t tid)
{
	const struct event_clock *c = (const struct event_clock *)clock;
	const struct kp_clock_thread *thread = kp_thread_table_find(&c->threads, tid);

	return thread && thread->state == KP_THREAD_WAITING;
}

#define OPS(clock_name)                                                                            \
	{                                                                                          \
		.name = clock_name, .source = KP_SOURCE_EVENT, .arm = arm, .forget = forget,       \
		.release = release, .owner = owner, .serve = serve, .stop = stop,                  \
		.destroy = destroy,                                                                \
	}

/* They differ by what they count, which the event knows, and by name. */
static const struct kp_clock_ops event_clock_ops[] = {
	[KP_EVENT_TASK_CLOCK] = OPS("task-clock"),
	[KP_EVENT_CYCLES] = OPS("cycles"),
};

int kp_event_clock_create(pid_t pid, uint64_t agent, int signal,
			  const struct kp_event_period *period, struct kp_clock **ret,
			  struct kp_err *err)
{
	struct event_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &event_clock_ops[period->kind];
	c->base.period_ns = period->ns;
	c->period = *period;
	c->pid = pid;
	c->agent = agent;
	c->signal = signal;
	*ret = &c->base;
	return 0;
}
