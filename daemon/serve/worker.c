/*
 * Workers: worker.h. Server and its forks.
 *
 * Order: a worker writes a text before the count or state that makes it known (release); the server
 * reads that first (acquire). The numbers stand for themselves.
 */
#include "daemon/serve/worker.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTICE_FD 3

/* ---- in the worker ---- */

static void notice(struct kp_worker_desk *desk)
{
	/* A full pipe holds news enough, and a dead server needs none. */
	if (write(desk->notice_fd, "", 1) < 0)
		return;
}

void kp_worker_tell_state(struct kp_worker_desk *desk, enum kp_served_state state)
{
	__atomic_store_n(&desk->served->state, state, __ATOMIC_RELEASE);
	notice(desk);
}

void kp_worker_tell_samples(struct kp_worker_desk *desk, uint64_t samples)
{
	__atomic_store_n(&desk->served->samples, samples, __ATOMIC_RELAXED);
}

void kp_worker_tell_processes(struct kp_worker_desk *desk, uint64_t processes)
{
	__atomic_store_n(&desk->served->processes, processes, __ATOMIC_RELAXED);
}

void kp_worker_tell_note(struct kp_worker_desk *desk, const char *text)
{
	snprintf(desk->served->note, sizeof(desk->served->note), "%s", text);
}

void kp_worker_tell_file(struct kp_worker_desk *desk, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	uint64_t count = desk->served->file_count;

	for (uint64_t i = 0; i < count; i++)
		if (strcmp(desk->served->files[i], name) == 0)
			return;
	if (count == KP_CONTROL_FILES_MAX)
		return;
	snprintf(desk->served->files[count], sizeof(desk->served->files[count]), "%s", name);
	__atomic_store_n(&desk->served->file_count, count + 1, __ATOMIC_RELEASE);
}

/* The first one counts: what follows from it says less. */
void kp_worker_tell_error(struct kp_worker_desk *desk, const char *text)
{
	if (!desk->served->error[0])
		snprintf(desk->served->error, sizeof(desk->served->error), "%s", text);
}

/* Listener, clients and other workers' pipes: held open here they would outlive the server. */
static bool keep_only(int notice_fd)
{
	if (notice_fd != NOTICE_FD && dup3(notice_fd, NOTICE_FD, O_CLOEXEC) < 0)
		return false;
	return close_range(NOTICE_FD + 1, ~0u, 0) == 0;
}

__attribute__((noreturn)) static void work_in_fork(pid_t server, int notice_fd,
						   struct kp_served *served, kp_work_fn work,
						   void *ctx, const struct kp_request *request)
{
	struct kp_worker_desk desk = { .served = served, .notice_fd = NOTICE_FD };

	/* Clean ends are SIGTERM as well, so it does not matter who was first. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != server || !keep_only(notice_fd))
		_exit(1);
	_exit(work(ctx, request, &desk));
}

/* ---- in the server ---- */

static void unmap(struct kp_served **served)
{
	if (*served)
		munmap(*served, sizeof(**served));
	*served = NULL;
}

int kp_worker_start(struct kp_worker *ret, const struct kp_served *first, kp_work_fn work,
		    void *ctx, const struct kp_request *request, struct kp_err *err)
{
	pid_t server = getpid();
	int pipe[2];

	*ret = (struct kp_worker){ .notice_fd = -1 };
	ret->served = mmap(NULL, sizeof(*ret->served), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret->served == MAP_FAILED) {
		ret->served = NULL;
		return kp_fail_nomem(err);
	}
	*ret->served = *first;
	if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
		unmap(&ret->served);
		return kp_fail_errno(err, "worker: pipe");
	}
	fflush(NULL);
	ret->pid = fork();
	if (ret->pid == 0)
		work_in_fork(server, pipe[1], ret->served, work, ctx, request);
	close(pipe[1]);
	if (ret->pid < 0) {
		close(pipe[0]);
		unmap(&ret->served);
		return kp_fail_errno(err, "worker: fork");
	}
	ret->notice_fd = pipe[0];
	return 0;
}

bool kp_worker_is_there(struct kp_worker *worker)
{
	char news[64];
	ssize_t n;

	do
		n = read(worker->notice_fd, news, sizeof(news));
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 && errno == EAGAIN;
}

/* Somebody killed it, or it crashed: its session is cut off, not lost. */
static void tell_death(struct kp_served *served, int status)
{
	size_t used;

	if (WIFSIGNALED(status))
		snprintf(served->error, sizeof(served->error), "the worker was killed by signal %d",
			 WTERMSIG(status));
	else
		snprintf(served->error, sizeof(served->error),
			 "the worker ended early with status %d", WEXITSTATUS(status));
	used = strlen(served->error);
	if (served->file_count && served->pid)
		snprintf(served->error + used, sizeof(served->error) - used,
			 "; `kitprof report` renders what is in %s, `kitprof cleanup %d` removes "
			 "what is left in the process",
			 served->files[0], (int)served->pid);
	else if (served->file_count)
		snprintf(served->error + used, sizeof(served->error) - used,
			 "; `kitprof report` renders what is in %s, the next `kitprof on --all` "
			 "removes what is left in the processes, `kitprof cleanup PID` in one",
			 served->files[0]);
	served->state = KP_SERVED_FAILED;
}

void kp_worker_bury(struct kp_worker *worker, struct kp_served *ret)
{
	int status = 0;

	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret = *worker->served;
	if (ret->state != KP_SERVED_ENDED && ret->state != KP_SERVED_FAILED)
		tell_death(ret, status);
	close(worker->notice_fd);
	unmap(&worker->served);
	worker->notice_fd = -1;
	worker->pid = 0;
}
