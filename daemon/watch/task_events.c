/*
 * What becomes of a target's tasks: task_events.h. Daemon, session loop.
 *
 * Where it can be, descendants inherit the watch: the events of each added thread (one a CPU, and
 * one for how long descendants ran) are directed to buffers that all share, one a CPU and one more.
 * The price is paid at each birth of a thread, by the target, and grows with the number of CPUs; so
 * with many of them, or where the buffers are refused, each thread is added by itself and has a
 * buffer of its own.
 */
#include "daemon/watch/task_events.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/watch/task_detail.h"
#include "daemon/watch/task_perf.h"
#include "daemon/watch/task_samplers.h"
#include "daemon/watch/task_watch.h"
#include "daemon/watch/tid_set.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SHARED_BYTES (64u * 1024u)
#define WATCHES_MAX 500 /* threads with buffers of their own: two pages of locked memory each */
#define PASSES_MAX 8

struct kp_task_events {
	int epoll;
	bool threads_only;
	struct kp_task_shared shared; /* where descendants are watched */
	struct kp_task_watch **watch;
	size_t count, room;
	struct kp_tid_set watched;
	struct kp_task_samplers samplers;
	struct kp_task_detail detail; /* of the record at hand */
};

/* ---- buffers ---- */

static void drop_shared(struct kp_task_events *events)
{
	for (size_t i = 0; i < events->shared.count; i++)
		kp_task_source_free(events->shared.source[i]);
	events->shared.count = 0;
}

/* A CPU that is off line has no buffer: no thread runs there. */
static bool share(struct kp_task_events *events, int cpu)
{
	int fd = kp_task_perf_open(KP_TASK_PERF_BUFFER, 0, cpu, false);
	struct kp_task_source *source;

	if (fd < 0)
		return errno == ENODEV;
	if (kp_task_source_open(events->epoll, fd, SHARED_BYTES, cpu, &source, NULL) < 0)
		return false;
	events->shared.source[events->shared.count++] = source;
	return true;
}

static void share_buffers(struct kp_task_events *events)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	bool done = cpus > 0 && cpus <= KP_TASK_CPUS_MAX;

	for (int cpu = 0; done && cpu < cpus; cpu++)
		done = share(events, cpu);
	if (done && events->shared.count > 0)
		done = share(events, events->shared.source[0]->cpu);
	if (!done || events->shared.count < 2)
		drop_shared(events);
}

int kp_task_events_create(bool threads_only, struct kp_task_events **ret, struct kp_err *err)
{
	_cleanup_(kp_closep) int probe = kp_task_perf_open(KP_TASK_PERF_ONE, 0, -1, false);
	struct kp_task_events *events;

	if (probe < 0)
		return kp_fail_errno(err, "perf_event_open(dummy)");
	events = calloc(1, sizeof(*events));
	if (!events)
		return kp_fail_nomem(err);
	events->threads_only = threads_only;
	events->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (events->epoll < 0) {
		free(events);
		return kp_fail_errno(err, "epoll_create");
	}
	share_buffers(events);
	*ret = events;
	return 0;
}

/* ---- samples ---- */

bool kp_task_events_sample(struct kp_task_events *events, uint64_t period_ns)
{
	return kp_task_samplers_init(&events->samplers, events->epoll, &events->shared,
				     events->threads_only, period_ns);
}

struct kp_task_sampling kp_task_events_sampling(const struct kp_task_events *events)
{
	return events->samplers.sampling;
}

bool kp_task_events_inherits(const struct kp_task_events *events)
{
	return events->shared.count > 0;
}

int kp_task_events_fd(const struct kp_task_events *events)
{
	return events->epoll;
}

/* ---- watches ---- */

void kp_task_events_destroy(struct kp_task_events *events)
{
	if (!events)
		return;
	for (size_t i = 0; i < events->count; i++)
		kp_task_watch_free(events->watch[i]);
	free(events->watch);
	kp_task_samplers_deinit(&events->samplers);
	drop_shared(events);
	kp_tid_set_deinit(&events->watched);
	close(events->epoll);
	free(events);
}

static int reserve(struct kp_task_events *events, struct kp_err *err)
{
	size_t room = events->room ? events->room * 2 : 32;
	struct kp_task_watch **grown;

	if (events->count < events->room)
		return 0;
	grown = reallocarray(events->watch, room, sizeof(*grown));
	if (!grown)
		return kp_fail_nomem(err);
	events->watch = grown;
	events->room = room;
	return 0;
}

/* The watch that it has inherited may be told of in a record that nobody has read yet. */
static bool is_just_born(const struct kp_task_events *events, pid_t tid)
{
	for (size_t i = 0; i + 1 < events->shared.count; i++) {
		struct kp_record_ring ring = events->shared.source[i]->ring;
		struct kp_task_event event;

		kp_record_ring_look(&ring);
		for (; kp_record_ring_front(&ring, &event); kp_record_ring_take(&ring))
			if (event.type == KP_TASK_FORK && event.tid == tid)
				return true;
	}
	return false;
}

int kp_task_events_add(struct kp_task_events *events, pid_t tid, struct kp_err *err)
{
	bool inherits = kp_task_events_inherits(events);
	struct kp_task_watch *watch;
	int r;

	if (kp_tid_set_has(&events->watched, tid) || is_just_born(events, tid))
		return 0;
	if (!inherits && events->count >= WATCHES_MAX)
		return KP_TASK_EVENTS_FULL;
	r = reserve(events, err);
	if (r < 0)
		return r;
	/* First, so that of whoever is told of it is known whether it is sampled. */
	if (inherits)
		kp_task_samplers_add(&events->samplers, tid);
	r = inherits ? kp_task_watch_line(tid, &events->shared, events->threads_only, &watch, err)
		     : kp_task_watch_one(tid, events->epoll, &watch, err);
	if (r < 0)
		return errno == EMFILE ? KP_TASK_EVENTS_FULL : r;
	events->watch[events->count++] = watch;
	return kp_tid_set_add(&events->watched, tid, err);
}

/* Closing the events of a thread would close those of its descendants. */
void kp_task_events_remove(struct kp_task_events *events, pid_t tid)
{
	if (kp_task_events_inherits(events))
		return;
	kp_tid_set_remove(&events->watched, tid);
	for (size_t i = 0; i < events->count; i++)
		if (events->watch[i]->tid == tid)
			events->watch[i]->removed = true;
}

static void sweep(struct kp_task_events *events)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->count; i++) {
		if (events->watch[i]->removed)
			kp_task_watch_free(events->watch[i]);
		else
			events->watch[kept++] = events->watch[i];
	}
	events->count = kept;
}

/* The watch of a thread that has not been seen to end, or NULL. */
static struct kp_task_watch *find(const struct kp_task_events *events, pid_t tid)
{
	for (size_t i = 0; i < events->count; i++)
		if (events->watch[i]->tid == tid && !events->watch[i]->ended)
			return events->watch[i];
	return NULL;
}

bool kp_task_events_ran(const struct kp_task_events *events, pid_t tid, uint64_t *ret_ns)
{
	const struct kp_task_watch *watch = find(events, tid);

	return watch && kp_task_watch_ran(watch, ret_ns);
}

/* ---- reading ---- */

/* After its end: how long a thread ran that was added itself. */
static int tell_ran(struct kp_task_events *events, const struct kp_task_event *exit,
		    kp_task_event_fn fn, void *ctx, struct kp_err *err)
{
	struct kp_task_watch *watch = find(events, exit->tid);
	struct kp_task_event ran = *exit;

	if (!watch)
		return 0;
	watch->ended = true;
	watch->removed = !kp_task_events_inherits(events);
	ran.type = KP_TASK_RAN;
	return kp_task_watch_ran(watch, &ran.ran_ns) ? fn(ctx, &ran, err) : 0;
}

/* Of samples that were lost nothing follows: nothing is in them but time. */
static bool says_nothing(const struct kp_task_events *events, const struct kp_task_source *source,
			 const struct kp_task_event *event)
{
	return event->type == KP_TASK_LOST && kp_task_samplers_have(&events->samplers, source);
}

static int hand_out(struct kp_task_events *events, const struct kp_task_event *event,
		    kp_task_event_fn fn, void *ctx, struct kp_err *err)
{
	bool inherits = kp_task_events_inherits(events);
	int r = 0;

	if (event->type == KP_TASK_FORK && inherits &&
	    (event->pid == event->parent_pid || !events->threads_only))
		r = kp_tid_set_add(&events->watched, event->tid, err);
	if (event->type == KP_TASK_EXIT)
		kp_tid_set_remove(&events->watched, event->tid);
	if (r == 0)
		r = fn(ctx, event, err);
	if (r == 0 && event->type == KP_TASK_EXIT)
		r = tell_ran(events, event, fn, ctx, err);
	return r;
}

static size_t source_count(const struct kp_task_events *events)
{
	return events->shared.count + events->samplers.source_count + events->count;
}

/* A buffer to read, or NULL: shared ones first, then those of threads. */
static struct kp_task_source *source_at(const struct kp_task_events *events, size_t i)
{
	if (i < events->shared.count)
		return events->shared.source[i];
	i -= events->shared.count;
	if (i < events->samplers.source_count)
		return events->samplers.source[i];
	i -= events->samplers.source_count;
	return i < events->count ? events->watch[i]->source : NULL;
}

/* The source with the earliest record of all that is not later than that; NULL: none. */
static struct kp_task_source *earliest(const struct kp_task_events *events, uint64_t until_ns,
				       struct kp_task_event *ret)
{
	struct kp_task_source *found = NULL;

	for (size_t i = 0; i < source_count(events); i++) {
		struct kp_task_source *source = source_at(events, i);
		struct kp_task_event event;

		if (!source || source->ring.head == source->ring.tail ||
		    !kp_record_ring_front(&source->ring, &event))
			continue;
		if (event.time_ns > until_ns || (found && event.time_ns >= ret->time_ns))
			continue;
		found = source;
		*ret = event;
	}
	return found;
}

static bool look(const struct kp_task_events *events)
{
	bool any = false;

	for (size_t i = 0; i < source_count(events); i++) {
		struct kp_task_source *source = source_at(events, i);

		any |= source && kp_record_ring_look(&source->ring);
	}
	return any;
}

static void release(const struct kp_task_events *events)
{
	for (size_t i = 0; i < source_count(events); i++) {
		struct kp_task_source *source = source_at(events, i);

		if (source)
			kp_record_ring_release(&source->ring);
	}
}

/*
 * All buffers are looked at: that one is readable is forgotten by the kernel as soon as somebody,
 * such as a poll() of the epoll descriptor, has seen it. While one is looked at, others fill; so a
 * pass ends at the time at which it began, and there are passes until nothing is left.
 */
int kp_task_events_read(struct kp_task_events *events, kp_task_event_fn fn, void *ctx,
			struct kp_err *err)
{
	int r = 0;

	for (int pass = 0; pass < PASSES_MAX && r == 0; pass++) {
		uint64_t until_ns = kp_now_ns();
		struct kp_task_event event;
		struct kp_task_source *source;

		if (!look(events))
			break;
		while (r == 0 && (source = earliest(events, until_ns, &event))) {
			kp_task_detail_take(&events->detail, &source->ring, &event);
			kp_record_ring_take(&source->ring);
			kp_task_samplers_hear(&events->samplers, &event);
			if (!says_nothing(events, source, &event))
				r = hand_out(events, &event, fn, ctx, err);
		}
		release(events);
	}
	sweep(events);
	kp_task_samplers_turn(&events->samplers, kp_now_ns());
	return r;
}
