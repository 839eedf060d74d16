/* A thread that is watched, and buffers of records: task_watch.h. Daemon, session loop. */
#include "daemon/watch/task_watch.h"

#include "common/cleanup.h"
#include "daemon/watch/task_perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OWN_BYTES 4096u /* of a thread that has a buffer of its own */

/* ---- buffers ---- */

void kp_task_source_free(struct kp_task_source *source)
{
	if (!source)
		return;
	kp_record_ring_unmap(&source->ring);
	kp_closep(&source->fd); /* which takes it out of the epoll set */
	free(source);
}

static void source_freep(struct kp_task_source **source)
{
	kp_task_source_free(*source);
}

int kp_task_source_open(int epoll, int fd, size_t bytes, int cpu, struct kp_task_source **ret,
			struct kp_err *err)
{
	_cleanup_(source_freep) struct kp_task_source *source = calloc(1, sizeof(*source));
	struct epoll_event readable = { .events = EPOLLIN };
	int r;

	if (!source) {
		close(fd);
		return kp_fail_nomem(err);
	}
	source->fd = fd;
	source->cpu = cpu;
	r = kp_record_ring_map(fd, bytes, &source->ring, err);
	if (r < 0)
		return r;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) != 0)
		return kp_fail_errno(err, "epoll_ctl");
	*ret = kp_take(source);
	return 0;
}

/* ---- watches ---- */

void kp_task_watch_free(struct kp_task_watch *watch)
{
	if (!watch)
		return;
	for (size_t i = 0; i < watch->fd_count; i++)
		close(watch->fd[i]);
	if (watch->source)
		kp_task_source_free(watch->source);
	else
		kp_closep(&watch->own);
	free(watch);
}

static void watch_freep(struct kp_task_watch **watch)
{
	kp_task_watch_free(*watch);
}

static struct kp_task_watch *watch_create(pid_t tid, struct kp_err *err)
{
	struct kp_task_watch *watch = calloc(1, sizeof(*watch));

	if (!watch) {
		kp_fail_nomem(err);
		return NULL;
	}
	watch->tid = tid;
	watch->own = -1;
	return watch;
}

static int explain(pid_t tid, struct kp_err *err)
{
	return errno == ESRCH
		       ? kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid)
		       : kp_fail_errno(err, "perf_event_open(dummy) for thread %d", (int)tid);
}

/* An event of the thread that writes to a shared buffer. A CPU that is off line has none. */
static int direct(struct kp_task_watch *watch, enum kp_task_perf kind,
		  const struct kp_task_source *to, bool threads_only, struct kp_err *err)
{
	int fd = kp_task_perf_open(kind, watch->tid, to->cpu, threads_only);

	if (fd < 0)
		return errno == ENODEV ? 0 : explain(watch->tid, err);
	watch->fd[watch->fd_count++] = fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, to->fd) != 0)
		return kp_fail_errno(err, "perf event of thread %d: its buffer", (int)watch->tid);
	return 0;
}

int kp_task_watch_line(pid_t tid, const struct kp_task_shared *shared, bool threads_only,
		       struct kp_task_watch **ret, struct kp_err *err)
{
	_cleanup_(watch_freep) struct kp_task_watch *watch = watch_create(tid, err);
	size_t times = shared->count - 1;
	int r = 0;

	if (!watch)
		return -KP_ENOMEM;
	watch->own = kp_task_perf_open(KP_TASK_PERF_OWN, tid, -1, false);
	if (watch->own < 0)
		return explain(tid, err);
	for (size_t i = 0; i < times && r == 0; i++)
		r = direct(watch, KP_TASK_PERF_LINE, shared->source[i], threads_only, err);
	if (r == 0)
		r = direct(watch, KP_TASK_PERF_ENDS, shared->source[times], threads_only, err);
	if (r == 0)
		*ret = kp_take(watch);
	return r;
}

int kp_task_watch_one(pid_t tid, int epoll, struct kp_task_watch **ret, struct kp_err *err)
{
	_cleanup_(watch_freep) struct kp_task_watch *watch = watch_create(tid, err);
	int fd, r;

	if (!watch)
		return -KP_ENOMEM;
	fd = kp_task_perf_open(KP_TASK_PERF_ONE, tid, -1, false);
	if (fd < 0)
		return explain(tid, err);
	r = kp_task_source_open(epoll, fd, OWN_BYTES, -1, &watch->source, err);
	if (r < 0)
		return r;
	watch->own = fd;
	*ret = kp_take(watch);
	return 0;
}

bool kp_task_watch_ran(const struct kp_task_watch *watch, uint64_t *ret_ns)
{
	/* As the events' read_format has it. */
	struct {
		uint64_t value, enabled_ns, running_ns;
	} counted;

	if (read(watch->own, &counted, sizeof(counted)) != (ssize_t)sizeof(counted))
		return false;
	*ret_ns = counted.enabled_ns;
	return true;
}
