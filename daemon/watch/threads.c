/* The threads of a target: threads.h. Daemon, session loop. */
#include "daemon/watch/threads.h"

#include "common/cleanup.h"
#include "daemon/linux/proc.h"

#include <stdlib.h>
#include <string.h>

void kp_threads_init(struct kp_threads *threads, pid_t pid, pid_t ns_pid)
{
	*threads = (struct kp_threads){ .pid = pid, .own_namespace = pid != ns_pid };
}

void kp_threads_deinit(struct kp_threads *threads)
{
	free(threads->thread);
	*threads = (struct kp_threads){ 0 };
}

static pid_t namespace_tid(const struct kp_threads *threads, pid_t tid)
{
	struct kp_proc_status status;

	if (!threads->own_namespace || kp_proc_status(threads->pid, tid, &status, NULL) < 0)
		return tid;
	return status.ns_tid;
}

static int insert(struct kp_threads *threads, size_t at, pid_t tid, struct kp_err *err)
{
	struct kp_thread *thread;

	if (threads->count == threads->room) {
		size_t room = threads->room ? threads->room * 2 : 64;
		struct kp_thread *grown = reallocarray(threads->thread, room, sizeof(*grown));

		if (!grown)
			return kp_fail_nomem(err);
		threads->thread = grown;
		threads->room = room;
	}
	thread = &threads->thread[at];
	memmove(thread + 1, thread, (threads->count - at) * sizeof(*thread));
	*thread = (struct kp_thread){ .tid = tid, .ns_tid = namespace_tid(threads, tid) };
	kp_proc_comm(threads->pid, tid, thread->comm, sizeof(thread->comm));
	threads->count++;
	threads->seen++;
	return 0;
}

static size_t place_of(const struct kp_threads *threads, pid_t tid)
{
	size_t at = 0;

	while (at < threads->count && threads->thread[at].tid < tid)
		at++;
	return at;
}

int kp_threads_add(struct kp_threads *threads, pid_t tid, struct kp_err *err)
{
	return insert(threads, place_of(threads, tid), tid, err);
}

struct kp_thread *kp_threads_find(const struct kp_threads *threads, pid_t tid)
{
	size_t low = 0, high = threads->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (threads->thread[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < threads->count && threads->thread[low].tid == tid ? &threads->thread[low]
								       : NULL;
}

static void drop(struct kp_threads *threads, size_t at)
{
	struct kp_thread *thread = &threads->thread[at];

	memmove(thread, thread + 1, (--threads->count - at) * sizeof(*thread));
}

int kp_threads_born(struct kp_threads *threads, pid_t tid, kp_thread_event_fn event, void *ctx,
		    struct kp_err *err)
{
	size_t at = place_of(threads, tid);
	int r;

	if (at < threads->count && threads->thread[at].tid == tid)
		return 0;
	r = insert(threads, at, tid, err);
	if (r < 0)
		return r;
	/* Ended before anybody looked: it has no name any more. Seen it is all the same. */
	if (!threads->thread[at].comm[0]) {
		drop(threads, at);
		return 0;
	}
	return event(ctx, &threads->thread[at], true, err);
}

static int went(struct kp_threads *threads, size_t at, kp_thread_event_fn event, void *ctx,
		struct kp_err *err)
{
	int r = event(ctx, &threads->thread[at], false, err);

	drop(threads, at);
	return r;
}

/* Both lists ascend: one walk along the two. */
static int merge(struct kp_threads *threads, const pid_t *tids, size_t count,
		 kp_thread_event_fn event, void *ctx, struct kp_err *err)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		while (r == 0 && at < threads->count && threads->thread[at].tid < tids[i])
			r = went(threads, at, event, ctx, err);
		if (r == 0 && (at == threads->count || threads->thread[at].tid != tids[i])) {
			r = insert(threads, at, tids[i], err);
			if (r == 0)
				r = event(ctx, &threads->thread[at], true, err);
		}
		at++;
	}
	while (r == 0 && at < threads->count)
		r = went(threads, at, event, ctx, err);
	return r;
}

int kp_threads_poll(struct kp_threads *threads, kp_thread_event_fn event, void *ctx,
		    struct kp_err *err)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count = 0;
	int r = kp_proc_tasks(threads->pid, &tids, &count, err);

	if (r < 0 && r != -KP_EGONE)
		return r;
	return merge(threads, tids, count, event, ctx, err);
}
