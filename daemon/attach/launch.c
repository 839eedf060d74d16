/*
 * `kitprof run`: a child with the agent in it before its first instruction.
 *
 *	kitprof		forks the child, then runs the helper
 *	child		waits for the helper's pid, lets that trace it (Yama), waits for "go", execs
 *	helper		seizes the child, says "go", waits for the exec stop, injects, lets go, ends
 *
 * The child is kitprof's own, so it is waited for as any child is; the helper only borrows it.
 */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/attach/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#define EXEC_TIMEOUT_S 60 /* a program file on a slow file system */

struct launch_job {
	int to_child; /* the helper's end */
	pid_t child;
	int signal;
	struct kp_inject_job *inject;
};

/* The job that the helper works on; it got it by fork. One launch at a time. */
static struct launch_job launch;

/* What the child says when exec fails. */
struct exec_failure {
	int error;
};

__attribute__((noreturn)) static void
child_main(int from_helper, int failure_to, char *const argv[], const struct kp_launch_hooks *hooks)
{
	struct exec_failure failure;
	pid_t helper;
	char go;

	if (read(from_helper, &helper, sizeof(helper)) != sizeof(helper))
		_exit(125);
	prctl(PR_SET_PTRACER, helper, 0, 0, 0); /* fails without Yama: then nobody asks */
	if (write(from_helper, "k", 1) != 1 || read(from_helper, &go, 1) != 1)
		_exit(125);
	if (hooks->before_exec)
		hooks->before_exec(hooks->before_exec_ctx);
	execvp(argv[0], argv);
	failure.error = errno;
	if (write(failure_to, &failure, sizeof(failure)) != sizeof(failure))
		_exit(125);
	_exit(failure.error == ENOENT ? 127 : 126);
}

static int wait_for_exec(pid_t child, struct kp_err *err)
{
	struct timespec limit = { .tv_sec = EXEC_TIMEOUT_S };
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		int status, r = waitpid(child, &status, __WALL | WNOHANG);

		if (r < 0 || (r > 0 && !WIFSTOPPED(status)))
			return kp_fail(err, KP_EGONE, "the program could not be started");
		if (r > 0 && status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXEC << 8)))
			return 0;
		if (r > 0) {
			int sig = status >> 16 ? 0 : WSTOPSIG(status);

			ptrace(PTRACE_CONT, child, 0, (long)sig);
		} else if (sigtimedwait(&chld, NULL, &limit) < 0 && errno == EAGAIN) {
			return kp_fail(err, KP_EBUSY, "the program did not start within %d s",
				       EXEC_TIMEOUT_S);
		}
	}
}

static int seize_child(const struct launch_job *job, struct kp_err *err)
{
	pid_t me = getpid();
	char ready;

	if (write(job->to_child, &me, sizeof(me)) != sizeof(me) ||
	    read(job->to_child, &ready, 1) != 1)
		return kp_fail(err, KP_EGONE, "the program's process ended before exec");
	if (ptrace(PTRACE_SEIZE, job->child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) != 0)
		return kp_fail_errno(err, "cannot trace the program that is started");
	return write(job->to_child, "g", 1) == 1 ? 0 : kp_fail_errno(err, "starting the program");
}

static int launch_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct launch_job *job = &launch;
	struct kp_inject_job *inject = memory;
	struct kp_stop stop;
	int r = seize_child(job, err);

	if (r == 0)
		r = wait_for_exec(job->child, err);
	if (r == 0)
		r = kp_stop_adopt(&stop, job->child, job->child, err);
	if (r < 0)
		return r;
	r = kp_target_check_exec(job->child, job->signal, &inject->target, err);
	if (r == 0) {
		inject->plan.signal = inject->target.signal;
		inject->mail[0].tid = (uint32_t)inject->target.ns_pid;
		r = kp_inject_into(&stop, inject, ret_fd, err);
	}
	if (r < 0)
		kill(job->child, SIGKILL); /* it has not executed one instruction */
	inject->stopped_ns = kp_stop_end(&stop);
	return r;
}

/* The file that execvp() would take; "" if there is none. */
static void find_program(const char *name, char *ret, size_t size)
{
	const char *path = getenv("PATH");

	snprintf(ret, size, "%s", name);
	if (strchr(name, '/'))
		return;
	for (const char *p = path ? path : "/bin:/usr/bin"; *p;) {
		size_t len = strcspn(p, ":");

		snprintf(ret, size, "%.*s%s%s", (int)len, p, len ? "/" : "", name);
		if (access(ret, X_OK) == 0)
			return;
		p += len + (p[len] == ':');
	}
	ret[0] = 0;
}

/* The kernel would start it without the privileges that its file grants: another program. */
static int check_privileged(const char *name, struct kp_err *err)
{
	char path[4096];
	struct stat st;

	find_program(name, path, sizeof(path));
	if (geteuid() == 0 || stat(path, &st) != 0)
		return 0;
	if (!(st.st_mode & (S_ISUID | S_ISGID)) &&
	    getxattr(path, "security.capability", NULL, 0) <= 0)
		return 0;
	return kp_fail(err, KP_EREFUSED,
		       "%s is a set-uid, set-gid or file-capability program: under a tracer the "
		       "kernel would "
		       "start it without its privileges. Run kitprof as root",
		       path);
}

static int explain_exec(const char *name, const struct exec_failure *failure, struct kp_err *err)
{
	kp_fail(err, KP_ESYSTEM, "%s: %s", name,
		failure->error == ENOENT ? "command not found" : strerror(failure->error));
	return failure->error == ENOENT ? KP_LAUNCH_NOT_FOUND : KP_LAUNCH_NOT_EXECUTABLE;
}

static void reap(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Forks the child and runs the helper; *ret_fd: the memfd. */
static int start(char *const argv[], const struct kp_launch_hooks *hooks, struct kp_inject_job *job,
		 int *ret_fd, struct kp_err *err)
{
	_cleanup_(kp_closep) int helper_end = -1;
	_cleanup_(kp_closep) int failure_from = -1;
	struct exec_failure failure;
	int pair[2], failures[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return kp_fail_errno(err, "starting the program: socketpair");
	helper_end = pair[0];
	if (pipe2(failures, O_CLOEXEC) != 0) {
		close(pair[1]);
		return kp_fail_errno(err, "starting the program: pipe");
	}
	failure_from = failures[0];
	launch.child = fork();
	if (launch.child == 0) {
		close(helper_end); /* else it would not see that end shut */
		child_main(pair[1], failures[1], argv, hooks);
	}
	close(pair[1]);
	close(failures[1]);
	if (launch.child < 0)
		return kp_fail_errno(err, "starting the program: fork");
	if (hooks->child_exists)
		hooks->child_exists(hooks->ctx, launch.child);
	launch.to_child = helper_end;
	r = kp_helper_run(launch_helper, job, ret_fd, err);
	if (r == 0)
		return 0;
	/* Shut, so that a child which still waits for its "go" ends. */
	close(kp_take_fd(&helper_end));
	if (read(failure_from, &failure, sizeof(failure)) == sizeof(failure))
		r = explain_exec(argv[0], &failure, err);
	else
		kill(launch.child, SIGKILL);
	reap(launch.child);
	return r;
}

int kp_launch(char *const argv[], int signal, const struct kp_agent_plan *plan,
	      struct kp_mail *mail, const struct kp_launch_hooks *hooks,
	      struct kp_target *ret_target, struct kp_shm_map *ret_map, uint64_t *ret_stopped_ns,
	      struct kp_err *err)
{
	_cleanup_(kp_inject_job_destroyp) struct kp_inject_job *job = NULL;
	int fd = -1, r = check_privileged(argv[0], err);

	if (r < 0)
		return r;
	job = kp_inject_job_create(plan, 1, err);
	if (!job)
		return -KP_ENOMEM;
	job->mail[0] = *mail;
	launch = (struct launch_job){ .signal = signal };
	r = start(argv, hooks, job, &fd, err);
	if (r != 0) {
		kp_closep(&fd);
		return r;
	}
	*ret_target = job->target;
	*mail = job->mail[0];
	*ret_stopped_ns = job->stopped_ns;
	return kp_shm_map_init(ret_map, fd, job->base, &job->shape, err);
}
