/*
 * Stopping one thread with PTRACE_SEIZE and PTRACE_INTERRUPT, remote system calls, letting go.
 * Runs in the attach helper, which has all signals blocked and waits for SIGCHLD with a deadline.
 *
 * No byte of the target's code or stack is written: system calls run on the instruction that the
 * vdso contains, entered with PTRACE_SYSCALL so that no breakpoint and no SIGTRAP is needed.
 */
#include "daemon/attach/stop.h"

#include "common/cleanup.h"
#include "daemon/attach/rseq.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SYSCALL_STOP (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define CALL_TIMEOUT_MS 2000
#define FOREVER_MS UINT64_C(31536000000)
#define ANY_TIMEOUT_MS 1000 /* a parent in vfork() stands still until its child execs */
#define ANY_NAP_NS 2000000

static int gone(const struct kp_stop *stop, struct kp_err *err)
{
	return kp_fail(err, KP_EGONE, "pid %d: thread %d is gone", (int)stop->pid, (int)stop->tid);
}

/* A ptrace request failed; what: the object of it. A thread may be killed at any moment. */
static int refused(const struct kp_stop *stop, const char *what, struct kp_err *err)
{
	return errno == ESRCH ? gone(stop, err)
			      : kp_fail_errno(err, "pid %d: %s of thread %d", (int)stop->pid, what,
					      (int)stop->tid);
}

static int resume(struct kp_stop *stop, int request, int sig, struct kp_err *err)
{
	return ptrace(request, stop->tid, 0, (long)sig) == 0 ? 0 : refused(stop, "ptrace", err);
}

static int ask_to_stop(struct kp_stop *stop, struct kp_err *err)
{
	/* EIO as well: the thread is ending. */
	return ptrace(PTRACE_INTERRUPT, stop->tid, 0, 0) == 0 ? 0 : gone(stop, err);
}

static int set_regs(struct kp_stop *stop, const struct kp_cpu_regs *regs, struct kp_err *err)
{
	return kp_cpu_set_regs(stop->tid, regs) == 0 ? 0 : refused(stop, "registers", err);
}

/*
 * The next ptrace event of the thread. SIGCHLD is blocked in the helper, so sigtimedwait() cannot
 * miss one that comes between the look and the wait.
 */
static int wait_event(struct kp_stop *stop, uint64_t deadline_ns, int *ret_status,
		      struct kp_err *err)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		pid_t r = waitpid(stop->tid, ret_status, __WALL | WNOHANG);
		uint64_t now = kp_now_ns();
		struct timespec wait;

		if (r > 0 && WIFSTOPPED(*ret_status))
			return 0;
		if (r != 0)
			return gone(stop, err);
		if (now >= deadline_ns)
			return kp_fail(err, KP_EBUSY, "pid %d: thread %d does not stop",
				       (int)stop->pid, (int)stop->tid);
		wait.tv_sec = (time_t)((deadline_ns - now) / 1000000000u);
		wait.tv_nsec = (long)((deadline_ns - now) % 1000000000u);
		sigtimedwait(&child, NULL, &wait);
	}
}

/*
 * Waits for the stop that PTRACE_INTERRUPT asked for; a signal that is being delivered goes on to
 * the thread first.
 */
static int wait_interrupted(struct kp_stop *stop, uint64_t timeout_ms, struct kp_err *err)
{
	uint64_t deadline = kp_now_ns() + timeout_ms * MS;

	for (;;) {
		int status, r = wait_event(stop, deadline, &status, err);
		int event = status >> 16;

		if (r < 0)
			return r;
		if (event == PTRACE_EVENT_STOP)
			return 0;
		r = resume(stop, PTRACE_CONT,
			   event || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status), err);
		if (r < 0)
			return r;
	}
}

/*
 * The thread did not get on with our registers: it is frozen (cgroup), or waits in the kernel for
 * what others hold. It must not be let go with them: thawed, it would go on with our call as if it
 * were its own. So it is stopped again, however long that takes: one that is frozen can be at once.
 */
static int regain(struct kp_stop *stop, struct kp_err *err)
{
	struct kp_err ignored;
	int r = ask_to_stop(stop, &ignored);

	if (r == 0)
		r = wait_interrupted(stop, FOREVER_MS, &ignored);
	if (r < 0)
		return gone(stop, err);
	return kp_fail(err, KP_EBUSY,
		       "pid %d: thread %d does not get on: is the process frozen or suspended? Try "
		       "again when it runs",
		       (int)stop->pid, (int)stop->tid);
}

/*
 * All signals are blocked during a stop but SIGSTOP. It is passed on: the kernel then notes that the
 * process is to be stopped, or not any more after a SIGCONT, while its tracer may let this thread
 * run; and stops it for good when it is let go. Kept back and sent again, it could overtake a
 * SIGCONT.
 */
static int signal_to_pass(int status)
{
	return status >> 16 == 0 && WSTOPSIG(status) == SIGSTOP ? SIGSTOP : 0;
}

static int block_signals(struct kp_stop *stop, struct kp_err *err)
{
	uint64_t all = ~UINT64_C(0);

	if (ptrace(PTRACE_GETSIGMASK, stop->tid, sizeof(stop->saved_mask), &stop->saved_mask) !=
		    0 ||
	    ptrace(PTRACE_SETSIGMASK, stop->tid, sizeof(all), &all) != 0)
		return refused(stop, "signal mask", err);
	return 0;
}

/* A signal that will be delivered at once would have interrupted the call anyway. */
static bool signal_is_due(const struct kp_stop *stop)
{
	struct kp_proc_status status;

	if (kp_proc_status(stop->pid, stop->tid, &status, NULL) < 0)
		return true;
	return (status.sig_pending | status.shared_pending) & ~stop->saved_mask;
}

/* Reads the thread's state and makes it safe to use. On failure the thread is let go as it was. */
static int take_state(struct kp_stop *stop, struct kp_err *err)
{
	int r;

	stop->held = true;
	if (kp_cpu_get_regs(stop->tid, &stop->saved) != 0) {
		r = errno == ENOEXEC
			    ? kp_fail(err, KP_EREFUSED,
				      "pid %d is a 32-bit process, which kitprof cannot profile",
				      (int)stop->pid)
			    : refused(stop, "registers", err);
		goto fail;
	}
	if (!kp_cpu_is_native(&stop->saved)) {
		r = kp_fail(err, KP_EREFUSED,
			    "pid %d executes 32-bit code, which kitprof cannot profile",
			    (int)stop->pid);
		goto fail;
	}
	/* It may have exec'd since it was looked at; what was known of its memory is void then. */
	if (!kp_vdso_is_current(stop->pid, stop->tid, &stop->vdso)) {
		r = kp_vdso_find(stop->pid, stop->tid, &stop->vdso, err);
		if (r < 0)
			goto fail;
	}
	r = block_signals(stop, err);
	if (r < 0)
		goto fail;
	kp_rseq_abort(stop->tid, &stop->saved);
	if (!signal_is_due(stop))
		kp_cpu_redo_interrupted(&stop->saved);
	return 0;
fail:
	stop->held = false;
	ptrace(PTRACE_DETACH, stop->tid, 0, 0);
	return r;
}

/* It was asked to stop before, and did not in time. */
static bool is_ours(const struct kp_stop *stop)
{
	int saved = errno;
	struct kp_proc_status status;
	bool ours = kp_proc_status(stop->pid, stop->tid, &status, NULL) == 0 &&
		    status.tracer == getpid();

	errno = saved;
	return ours;
}

static int seize(struct kp_stop *stop, struct kp_err *err)
{
	long options = PTRACE_O_TRACESYSGOOD;

	/* The target's own filter does not judge our calls where we may say so (CAP_SYS_ADMIN). */
	if (ptrace(PTRACE_SEIZE, stop->tid, 0, options | PTRACE_O_SUSPEND_SECCOMP) == 0)
		return 0;
	if (errno == ESRCH)
		return gone(stop, err);
	if (ptrace(PTRACE_SEIZE, stop->tid, 0, options) == 0 || is_ours(stop))
		return 0;
	return refused(stop, "tracing", err);
}

int kp_stop_begin(struct kp_stop *stop, pid_t pid, pid_t tid, struct kp_err *err)
{
	int r;

	*stop = (struct kp_stop){ .pid = pid, .tid = tid };
	r = kp_vdso_find(pid, tid, &stop->vdso, err);
	if (r == 0)
		r = seize(stop, err);
	if (r < 0)
		return r;
	r = ask_to_stop(stop, err);
	if (r == 0)
		r = wait_interrupted(stop, KP_STOP_TIMEOUT_MS, err);
	if (r < 0)
		return r;
	/* Until here it ran, or waited for its turn among other threads, as it would have anyway. */
	stop->since_ns = kp_now_ns();
	return take_state(stop, err);
}

int kp_stop_adopt(struct kp_stop *stop, pid_t pid, pid_t tid, struct kp_err *err)
{
	int r;

	*stop = (struct kp_stop){ .pid = pid, .tid = tid, .since_ns = kp_now_ns() };
	r = ask_to_stop(stop, err);
	if (r == 0)
		r = resume(stop, PTRACE_CONT, 0, err);
	/* It has to get a CPU first, on a busy machine too; nobody else waits for it. */
	if (r == 0)
		r = wait_interrupted(stop, CALL_TIMEOUT_MS, err);
	return r < 0 ? r : take_state(stop, err);
}

#define RANK_NEVER -1
#define RANK_ENDED -2

/* Lower is better. */
static int rank(pid_t pid, pid_t tid)
{
	struct kp_proc_status status;
	struct kp_thread_where where;

	if (kp_proc_status(pid, tid, &status, NULL) < 0)
		return RANK_ENDED;
	if (status.tracer == getpid()) /* asked to stop before */
		return 0;
	if (status.tracer != 0 || strncmp(status.name, "iou-", 4) == 0)
		return RANK_NEVER;
	switch (status.state) {
	case 'R':
		return 0;
	case 'S':
	case 'T':
		kp_proc_where(pid, tid, &where);
		return where.place == KP_PLACE_SYSCALL && kp_cpu_is_redone(where.nr) ? 2 : 1;
	case 'Z':
	case 'X':
		return RANK_ENDED;
	default:
		return RANK_NEVER;
	}
}

#define RANKS 3

/* The threads that are there now, the best first. */
static int stop_one(struct kp_stop *stop, pid_t pid, struct kp_err *err)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	_cleanup_(kp_freep) int *ranks = NULL;
	size_t count, ended = 0;
	int r = kp_proc_tasks(pid, &tids, &count, err);

	if (r < 0)
		return r;
	ranks = calloc(count, sizeof(*ranks));
	if (!ranks)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < count; i++) {
		ranks[i] = rank(pid, tids[i]);
		ended += ranks[i] == RANK_ENDED;
	}
	if (ended == count)
		return kp_fail(err, KP_EGONE, "pid %d has ended", (int)pid);
	for (int want = 0; want < RANKS; want++) {
		for (size_t i = 0; i < count; i++) {
			if (ranks[i] != want)
				continue;
			r = kp_stop_begin(stop, pid, tids[i], err);
			if (r != -KP_EBUSY && r != -KP_EGONE)
				return r;
		}
	}
	return kp_fail(
		err, KP_EBUSY,
		"pid %d: no thread can be stopped now (all are traced, in uninterruptible sleep or "
		"ending); try again",
		(int)pid);
}

int kp_stop_any(struct kp_stop *stop, pid_t pid, struct kp_err *err)
{
	struct timespec nap = { .tv_nsec = ANY_NAP_NS };
	uint64_t deadline = kp_now_ns() + ANY_TIMEOUT_MS * MS;

	for (;;) {
		int r = stop_one(stop, pid, err);

		if (r != -KP_EBUSY || kp_now_ns() >= deadline)
			return r;
		nanosleep(&nap, NULL);
	}
}

uint64_t kp_stop_end(struct kp_stop *stop)
{
	uint64_t stood;

	if (!stop->held)
		return 0;
	kp_cpu_set_regs(stop->tid, &stop->saved);
	ptrace(PTRACE_SETSIGMASK, stop->tid, sizeof(stop->saved_mask), &stop->saved_mask);
	ptrace(PTRACE_DETACH, stop->tid, 0, 0);
	stood = kp_now_ns() - stop->since_ns;
	stop->held = false;
	return stood;
}

/* Runs the thread to the next entry or exit of a system call. */
static int to_syscall_stop(struct kp_stop *stop, struct kp_err *err)
{
	uint64_t deadline = kp_now_ns() + CALL_TIMEOUT_MS * MS;
	int pass = 0;

	for (;;) {
		int status, r = resume(stop, PTRACE_SYSCALL, pass, err);

		if (r < 0)
			return r;
		r = wait_event(stop, deadline, &status, err);
		if (r == -KP_EBUSY)
			return regain(stop, err);
		if (r < 0)
			return r;
		if (WSTOPSIG(status) == SYSCALL_STOP)
			return 0;
		pass = signal_to_pass(status);
	}
}

int kp_stop_syscall(struct kp_stop *stop, long nr, const uint64_t args[6], int64_t *ret,
		    struct kp_err *err)
{
	struct kp_cpu_regs regs = stop->saved;
	int r;

	kp_cpu_set_syscall(&regs, stop->vdso.syscall, nr, args);
	r = set_regs(stop, &regs, err);
	if (r == 0)
		r = to_syscall_stop(stop, err); /* entry */
	if (r == 0)
		r = to_syscall_stop(stop, err); /* exit */
	if (r < 0)
		return r;
	if (kp_cpu_get_regs(stop->tid, &regs) != 0)
		return refused(stop, "registers", err);
	*ret = kp_cpu_result(&regs);
	return 0;
}

static int interrupt_again(struct kp_stop *stop, struct kp_err *err)
{
	int r = ask_to_stop(stop, err);

	return r < 0 ? r : wait_interrupted(stop, CALL_TIMEOUT_MS, err);
}

/*
 * Until the agent wakes us, or for some time: the thread is to be looked at as well, it may have
 * ended. No polling with shorter sleeps, which keeps the CPU from the thread that is waited for.
 */
static void wait_for_agent(struct kp_shm_head *head)
{
	struct timespec patience = { .tv_nsec = 1000000 };

	syscall(SYS_futex, &head->call_done, FUTEX_WAIT, 0, &patience, NULL, 0);
}

/*
 * Until the agent says that it is done; the agent then waits in a futex call, so the interrupt
 * meets it there.
 */
int kp_stop_call(struct kp_stop *stop, uint64_t entry, uint64_t stack_top, struct kp_shm_head *head,
		 struct kp_err *err)
{
	uint64_t deadline = kp_now_ns() + CALL_TIMEOUT_MS * MS;
	struct kp_cpu_regs regs = stop->saved;
	bool done;
	int r;

	__atomic_store_n(&head->call_done, 0, __ATOMIC_RELEASE);
	kp_cpu_set_call(&regs, entry, stack_top);
	r = set_regs(stop, &regs, err);
	if (r == 0)
		r = resume(stop, PTRACE_CONT, 0, err);
	if (r < 0)
		return r;
	for (;;) {
		int status;

		done = __atomic_load_n(&head->call_done, __ATOMIC_ACQUIRE);
		if (done || kp_now_ns() >= deadline)
			break;
		wait_for_agent(head);
		if (waitpid(stop->tid, &status, __WALL | WNOHANG) <= 0)
			continue;
		if (!WIFSTOPPED(status))
			return gone(stop, err);
		r = resume(stop, PTRACE_CONT, signal_to_pass(status), err);
		if (r < 0)
			return r;
	}
	r = regain(stop, err);
	return done && r == -KP_EBUSY ? 0 : r;
}

int kp_stop_yield(struct kp_stop *stop, struct kp_err *err)
{
	struct timespec nap = { .tv_nsec = 300000 };
	int r;

	kp_cpu_set_regs(stop->tid, &stop->saved);
	ptrace(PTRACE_SETSIGMASK, stop->tid, sizeof(stop->saved_mask), &stop->saved_mask);
	r = resume(stop, PTRACE_CONT, 0, err);
	if (r < 0)
		return r;
	stop->held = false; /* what was saved is old from here on */
	nanosleep(&nap, NULL);
	r = interrupt_again(stop, err);
	if (r < 0)
		return r;
	return take_state(stop, err);
}
