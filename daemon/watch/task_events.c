/*
 * Births, deaths, execs and mappings of a target's tasks from dummy perf events: task_events.h.
 * Daemon, session loop.
 *
 * perf_event_open(2): PERF_COUNT_SW_DUMMY counts nothing; with task, comm, mmap set the kernel writes
 * records about the thread into a buffer of one page. A FORK record is written for what the watched
 * thread itself creates, so every thread is watched. inherit cannot be used: it has no buffer.
 */
#include "daemon/watch/task_events.h"

#include "common/cleanup.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096u
#define WATCHES_MAX 500 /* each takes a descriptor and two pages of locked memory */
#define RECORD_MAX 4096u

struct watch {
	pid_t tid;
	int fd;
	struct perf_event_mmap_page *page;
	bool removed; /* while records are read: freed afterwards */
};

struct kp_task_events {
	int epoll;
	struct watch **watch;
	size_t count, room;
};

static int open_dummy(pid_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.task = 1,
		.comm = 1,
		.comm_exec = 1,
		.mmap = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void watch_free(struct watch *watch)
{
	if (watch->page)
		munmap(watch->page, 2 * PAGE);
	kp_closep(&watch->fd);
	free(watch);
}

static void watch_freep(struct watch **watch)
{
	if (*watch)
		watch_free(*watch);
}

static int watch_open(pid_t tid, struct watch **ret, struct kp_err *err)
{
	_cleanup_(watch_freep) struct watch *watch = calloc(1, sizeof(*watch));
	void *page;

	if (!watch)
		return kp_fail_nomem(err);
	watch->tid = tid;
	watch->fd = open_dummy(tid);
	if (watch->fd < 0)
		return errno == ESRCH ? kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid)
				      : kp_fail_errno(err, "perf_event_open(dummy) for thread %d",
						      (int)tid);
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, watch->fd, 0);
	if (page == MAP_FAILED)
		return kp_fail_errno(err, "buffer of a perf event (kernel.perf_event_mlock_kb)");
	watch->page = page;
	*ret = kp_take(watch);
	return 0;
}

int kp_task_events_create(struct kp_task_events **ret, struct kp_err *err)
{
	_cleanup_(kp_closep) int probe = open_dummy(0);
	struct kp_task_events *events;

	if (probe < 0)
		return kp_fail_errno(err, "perf_event_open(dummy)");
	events = calloc(1, sizeof(*events));
	if (!events)
		return kp_fail_nomem(err);
	events->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (events->epoll < 0) {
		free(events);
		return kp_fail_errno(err, "epoll_create");
	}
	*ret = events;
	return 0;
}

void kp_task_events_destroy(struct kp_task_events *events)
{
	if (!events)
		return;
	for (size_t i = 0; i < events->count; i++)
		watch_free(events->watch[i]);
	free(events->watch);
	close(events->epoll);
	free(events);
}

int kp_task_events_fd(const struct kp_task_events *events)
{
	return events->epoll;
}

static bool is_watched(const struct kp_task_events *events, pid_t tid)
{
	for (size_t i = 0; i < events->count; i++)
		if (events->watch[i]->tid == tid && !events->watch[i]->removed)
			return true;
	return false;
}

static int reserve(struct kp_task_events *events, struct kp_err *err)
{
	size_t room = events->room ? events->room * 2 : 32;
	struct watch **grown;

	if (events->count < events->room)
		return 0;
	grown = reallocarray(events->watch, room, sizeof(*grown));
	if (!grown)
		return kp_fail_nomem(err);
	events->watch = grown;
	events->room = room;
	return 0;
}

int kp_task_events_add(struct kp_task_events *events, pid_t tid, struct kp_err *err)
{
	_cleanup_(watch_freep) struct watch *watch = NULL;
	struct epoll_event readable;
	int r;

	if (is_watched(events, tid))
		return 0;
	if (events->count >= WATCHES_MAX)
		return KP_TASK_EVENTS_FULL;
	r = reserve(events, err);
	if (r < 0)
		return r;
	r = watch_open(tid, &watch, err);
	if (r < 0 || !watch)
		return r;
	readable = (struct epoll_event){ .events = EPOLLIN, .data.ptr = watch };
	if (epoll_ctl(events->epoll, EPOLL_CTL_ADD, watch->fd, &readable) != 0)
		return kp_fail_errno(err, "epoll_ctl");
	events->watch[events->count++] = kp_take(watch);
	return 0;
}

void kp_task_events_remove(struct kp_task_events *events, pid_t tid)
{
	for (size_t i = 0; i < events->count; i++)
		if (events->watch[i]->tid == tid)
			events->watch[i]->removed = true;
}

static void sweep(struct kp_task_events *events)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->count; i++) {
		if (events->watch[i]->removed)
			watch_free(events->watch[i]); /* closing takes it out of the epoll set */
		else
			events->watch[kept++] = events->watch[i];
	}
	events->count = kept;
}

/* Layouts of perf_event_open(2), without sample_id_all. */
struct task_record {
	struct perf_event_header header;
	uint32_t pid, parent_pid;
	uint32_t tid, parent_tid;
};

struct id_record {
	struct perf_event_header header;
	uint32_t pid, tid;
};

static bool decode(const uint8_t *bytes, struct kp_task_event *ret)
{
	struct task_record task;
	struct id_record id;

	memcpy(&task, bytes, sizeof(task));
	memcpy(&id, bytes, sizeof(id));
	*ret = (struct kp_task_event){ .pid = (pid_t)id.pid, .tid = (pid_t)id.tid };
	switch (task.header.type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		*ret = (struct kp_task_event){ task.header.type == PERF_RECORD_FORK ? KP_TASK_FORK
										    : KP_TASK_EXIT,
					       (pid_t)task.pid, (pid_t)task.tid,
					       (pid_t)task.parent_pid, (pid_t)task.parent_tid };
		return true;
	case PERF_RECORD_COMM:
		ret->type =
			task.header.misc & PERF_RECORD_MISC_COMM_EXEC ? KP_TASK_EXEC : KP_TASK_NAME;
		return true;
	case PERF_RECORD_MMAP:
		ret->type = KP_TASK_MMAP;
		return true;
	case PERF_RECORD_LOST:
		ret->type = KP_TASK_LOST;
		return true;
	default:
		return false;
	}
}

/* Bytes at a position of the buffer, which wraps. */
static void copy_out(const struct watch *watch, uint64_t at, void *to, size_t size)
{
	const uint8_t *data = (const uint8_t *)watch->page + PAGE;

	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = data[(at + i) % PAGE];
}

static int read_watch(struct watch *watch, kp_task_event_fn fn, void *ctx, struct kp_err *err)
{
	/* Acquire: the kernel's records are written before it moves data_head. */
	uint64_t head = __atomic_load_n(&watch->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = watch->page->data_tail;
	int r = 0;

	while (tail != head && r == 0) {
		uint8_t bytes[sizeof(struct task_record)] = { 0 };
		struct perf_event_header header;
		struct kp_task_event event;

		copy_out(watch, tail, &header, sizeof(header));
		if (header.size < sizeof(header)) {
			tail = head;
			break;
		}
		copy_out(watch, tail, bytes,
			 header.size < sizeof(bytes) ? header.size : sizeof(bytes));
		tail += header.size;
		if (!decode(bytes, &event))
			continue;
		if (event.type == KP_TASK_EXIT && event.tid == watch->tid)
			watch->removed = true;
		r = fn(ctx, &event, err);
	}
	/* Release: what was read may be overwritten from here on. */
	__atomic_store_n(&watch->page->data_tail, tail, __ATOMIC_RELEASE);
	return r;
}

/*
 * All buffers are looked at: that one is readable is forgotten by the kernel as soon as somebody,
 * such as a poll() of the epoll descriptor, has seen it.
 */
int kp_task_events_read(struct kp_task_events *events, kp_task_event_fn fn, void *ctx,
			struct kp_err *err)
{
	int r = 0;

	/* The callback may add watches, which are then read as well. */
	for (size_t i = 0; i < events->count && r == 0; i++)
		r = read_watch(events->watch[i], fn, ctx, err);
	sweep(events);
	return r;
}
