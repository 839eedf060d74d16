/* The target's seccomp filters, judged before anything is injected: seccomp.h. */
#include "daemon/attach/seccomp.h"

#include "common/cleanup.h"
#include "daemon/attach/cpu.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#define STOP_TRIES 20 /* of KP_STOP_TIMEOUT_MS */

/* What the handler and the agent do, and whether a refusal with an errno can be lived with. */
struct need {
	const char *name;
	int nr;
	bool errno_ok;
	uint64_t args[4];
};

static const struct need needs[] = {
	{ "rt_sigreturn", SYS_rt_sigreturn, false, { 0 } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, true, { SIG_BLOCK, 4096, 0, 8 } },
	{ "timer_create", SYS_timer_create, true, { (uint32_t)-10, 4096, 4096 } },
	{ "timer_settime", SYS_timer_settime, true, { 0, 0, 4096, 0 } },
	{ "timer_delete", SYS_timer_delete, true, { 0 } },
	{ "futex", SYS_futex, true, { 4096, 1, 1 } },
	{ "getpid", SYS_getpid, true, { 0 } },
};

static const char *verdict_word(uint32_t action)
{
	switch (action) {
	case SECCOMP_RET_KILL_PROCESS:
	case SECCOMP_RET_KILL_THREAD:
		return "kill it for";
	case SECCOMP_RET_TRAP:
		return "raise SIGSYS for";
	case SECCOMP_RET_USER_NOTIF:
		return "ask its supervisor about";
	case SECCOMP_RET_TRACE:
		return "ask a tracer about";
	default:
		return "refuse";
	}
}

static bool is_acceptable(uint32_t action, const struct need *need)
{
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
	       (action == SECCOMP_RET_ERRNO && need->errno_ok);
}

static int judge(struct kp_stop *stop, const struct sock_filter *program, size_t count,
		 struct kp_err *err)
{
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		struct seccomp_data data = { .nr = needs[i].nr,
					     .arch = kp_cpu_audit_arch(),
					     .instruction_pointer = stop->vdso.syscall };
		uint32_t action;

		memcpy(data.args, needs[i].args, sizeof(needs[i].args));
		action = kp_seccomp_run(program, count, &data) & SECCOMP_RET_ACTION_FULL;
		if (!is_acceptable(action, &needs[i]))
			return kp_fail(err, KP_EREFUSED,
				       "pid %d: its seccomp filter would %s the system call %s, "
				       "which the agent "
				       "needs. Allow that call in the filter, or profile the "
				       "program without it",
				       (int)stop->pid, verdict_word(action), needs[i].name);
	}
	return 0;
}

/* The same filters as our own: we inherited them from the same container, and we live. */
static bool are_our_own(const struct kp_proc_status *status)
{
	struct kp_proc_status own;

	return kp_proc_status(getpid(), getpid(), &own, NULL) == 0 &&
	       own.seccomp == status->seccomp && own.seccomp_filters == status->seccomp_filters;
}

static int check_filter(struct kp_stop *stop, unsigned long index, long count, struct kp_err *err)
{
	_cleanup_(kp_freep) struct sock_filter *program = calloc((size_t)count, sizeof(*program));

	if (!program)
		return kp_fail_nomem(err);
	if (ptrace(PTRACE_SECCOMP_GET_FILTER, stop->tid, index, program) != count)
		return kp_fail_errno(err, "pid %d: reading its seccomp filter", (int)stop->pid);
	return judge(stop, program, (size_t)count, err);
}

int kp_seccomp_check(struct kp_stop *stop, struct kp_err *err)
{
	struct kp_proc_status status;
	int r = kp_proc_status(stop->pid, stop->tid, &status, err);

	if (r < 0 || status.seccomp == SECCOMP_MODE_DISABLED)
		return r;
	if (status.seccomp == SECCOMP_MODE_STRICT)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d: thread %d is in strict seccomp mode, where a signal "
			       "handler that makes a "
			       "system call is killed",
			       (int)stop->pid, (int)stop->tid);
	for (unsigned long index = 0;; index++) {
		long count = ptrace(PTRACE_SECCOMP_GET_FILTER, stop->tid, index, NULL);

		if (count < 0 && errno == ENOENT)
			return 0;
		if (count < 0 && index == 0 && are_our_own(&status))
			return 0;
		if (count <= 0)
			return kp_fail(err, KP_EREFUSED,
				       "pid %d has a seccomp filter that kitprof may not read "
				       "(CAP_SYS_ADMIN is "
				       "needed), so it cannot tell whether the target would "
				       "survive. Run kitprof "
				       "as root",
				       (int)stop->pid);
		r = check_filter(stop, index, count, err);
		if (r < 0)
			return r;
	}
}

static int check_thread(pid_t pid, pid_t tid, struct kp_err *err)
{
	struct kp_stop stop;
	int r = -KP_EBUSY;

	/* On a busy machine a thread may wait long for the moment in which it can stop. */
	for (int i = 0; i < STOP_TRIES && r == -KP_EBUSY; i++)
		r = kp_stop_begin(&stop, pid, tid, err);
	if (r < 0)
		return r == -KP_EGONE ? 0 : r;
	r = kp_seccomp_check(&stop, err);
	kp_stop_end(&stop);
	return r;
}

/*
 * Each confined thread is asked for itself: nothing that can be seen from outside tells whether two
 * have the same filters. Threads born meanwhile have those of the thread that made them.
 */
int kp_seccomp_check_threads(pid_t pid, struct kp_err *err)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;
	int r = kp_proc_tasks(pid, &tids, &count, err);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct kp_proc_status status;

		if (kp_proc_status(pid, tids[i], &status, NULL) == 0 && status.seccomp)
			r = check_thread(pid, tids[i], err);
	}
	return r;
}
