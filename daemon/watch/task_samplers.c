/* Who is sampled by the kernel: task_samplers.h. Daemon, session loop. */
#include "daemon/watch/task_samplers.h"

#include "daemon/linux/monotonic.h"
#include "daemon/watch/task_sample.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CPUS_MAX 16 /* each birth costs the target as many events */
#define MS UINT64_C(1000000)
#define AWAKE_NS (300 * MS) /* after a birth; and so long whoever gave it is taken to go on so */
#define YOUNG_NS (50 * MS) /* more than it takes until others sample it */
#define RENEW_NS (100 * MS)

/* ---- buffers ---- */

static void drop_sources(struct kp_task_samplers *s)
{
	for (size_t i = 0; i < s->source_count; i++)
		kp_task_source_free(s->source[i]);
	s->source_count = 0;
	s->sampling = (struct kp_task_sampling){ 0 };
}

static bool open_source(struct kp_task_samplers *s, int epoll, int cpu)
{
	int fd = kp_task_sample_open(0, cpu, s->threads_only, &s->sampling);

	if (fd < 0)
		return false;
	/* It is there for its buffer, not to sample kitprof. */
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (kp_task_source_open(epoll, fd, KP_TASK_SAMPLES_BYTES, cpu, &s->source[s->source_count],
				NULL) < 0)
		return false;
	s->source_count++;
	return true;
}

/* The last of the shared ones is not for a CPU. */
static bool open_sources(struct kp_task_samplers *s, int epoll, const struct kp_task_shared *shared,
			 const struct kp_task_sampling *sampling)
{
	bool done = shared->count > 0 && shared->count - 1 <= CPUS_MAX;

	s->sampling = *sampling;
	for (size_t i = 0; done && i + 1 < shared->count; i++)
		done = open_source(s, epoll, shared->source[i]->cpu);
	if (!done)
		drop_sources(s);
	return done;
}

bool kp_task_samplers_init(struct kp_task_samplers *s, int epoll,
			   const struct kp_task_shared *shared, bool threads_only,
			   uint64_t period_ns)
{
	struct kp_task_sampling with_kernel = { period_ns, true }, without = { period_ns, false };

	*s = (struct kp_task_samplers){ .threads_only = threads_only };
	if (!open_sources(s, epoll, shared, &with_kernel) &&
	    !open_sources(s, epoll, shared, &without))
		return false;
	s->awake = true;
	s->birth_ns = s->made_ns = kp_now_ns();
	return true;
}

static void close_events(struct kp_task_samplers *s)
{
	for (size_t i = 0; i < s->fd_count; i++)
		close(s->fd[i]);
	s->fd_count = 0;
	s->count = 0;
}

void kp_task_samplers_deinit(struct kp_task_samplers *s)
{
	close_events(s);
	drop_sources(s);
	free(s->fd);
	free(s->sampled);
	*s = (struct kp_task_samplers){ 0 };
}

bool kp_task_samplers_have(const struct kp_task_samplers *s, const struct kp_task_source *source)
{
	for (size_t i = 0; i < s->source_count; i++)
		if (s->source[i] == source)
			return true;
	return false;
}

/* ---- threads ---- */

static struct kp_task_sampled *find(const struct kp_task_samplers *s, pid_t tid)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->sampled[i].tid == tid)
			return &s->sampled[i];
	return NULL;
}

static bool note(struct kp_task_samplers *s, const struct kp_task_sampled *sampled)
{
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 32;
		struct kp_task_sampled *grown = reallocarray(s->sampled, room, sizeof(*grown));

		if (!grown)
			return false;
		s->sampled = grown;
		s->room = room;
	}
	s->sampled[s->count++] = *sampled;
	return true;
}

static void forget(struct kp_task_samplers *s, pid_t tid)
{
	struct kp_task_sampled *sampled = find(s, tid);

	if (sampled)
		*sampled = s->sampled[--s->count];
}

static bool reserve_fds(struct kp_task_samplers *s)
{
	size_t room = s->fd_room ? s->fd_room * 2 : 64;
	int *grown;

	if (s->fd_room - s->fd_count >= s->source_count)
		return true;
	grown = reallocarray(s->fd, room, sizeof(*grown));
	if (!grown)
		return false;
	s->fd = grown;
	s->fd_room = room;
	return s->fd_room - s->fd_count >= s->source_count;
}

/* On all CPUs or on none. */
static bool open_events(struct kp_task_samplers *s, pid_t tid)
{
	size_t before = s->fd_count;

	for (size_t i = 0; i < s->source_count; i++) {
		int fd = kp_task_sample_open(tid, s->source[i]->cpu, s->threads_only, &s->sampling);

		if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->source[i]->fd) == 0) {
			s->fd[s->fd_count++] = fd;
			continue;
		}
		if (fd >= 0)
			close(fd);
		while (s->fd_count > before)
			close(s->fd[--s->fd_count]);
		return false;
	}
	return true;
}

void kp_task_samplers_add(struct kp_task_samplers *s, pid_t tid)
{
	struct kp_task_sampled sampled = { .tid = tid };

	if (!s->awake || find(s, tid) || !reserve_fds(s) || !open_events(s, tid))
		return;
	sampled.since_ns = sampled.begun_ns = kp_now_ns();
	note(s, &sampled);
}

/* ---- what becomes of them ---- */

static void hear_birth(struct kp_task_samplers *s, struct kp_task_event *event)
{
	struct kp_task_sampled *parent = find(s, event->parent_tid);
	struct kp_task_sampled child = { event->tid, event->time_ns, event->time_ns, 0 };
	bool inherits = event->pid == event->parent_pid || !s->threads_only;

	s->awake = true;
	if (event->time_ns > s->birth_ns)
		s->birth_ns = event->time_ns;
	if (!parent) {
		kp_task_samplers_add(s, event->parent_tid);
		if (inherits)
			kp_task_samplers_add(s, event->tid);
	} else {
		parent->bore_ns = event->time_ns;
		if (inherits && event->time_ns > parent->since_ns)
			event->sampled = note(s, &child);
	}
}

static void hear_exec(struct kp_task_samplers *s, struct kp_task_event *event)
{
	struct kp_task_sampled *sampled = find(s, event->tid);

	event->sampled = sampled;
	if (!sampled)
		return;
	sampled->begun_ns = event->time_ns;
	if (event->time_ns > s->birth_ns)
		s->birth_ns = event->time_ns;
}

void kp_task_samplers_hear(struct kp_task_samplers *s, struct kp_task_event *event)
{
	if (!s->source_count)
		return;
	if (event->type == KP_TASK_FORK)
		hear_birth(s, event);
	if (event->type == KP_TASK_EXEC)
		hear_exec(s, event);
	if (event->type == KP_TASK_EXIT)
		forget(s, event->tid);
}

/* Times of events may be later than what the clock said before. */
static bool is_within(uint64_t time_ns, uint64_t span_ns, uint64_t now_ns)
{
	return time_ns && now_ns < time_ns + span_ns;
}

/* What is old and childless is sampled no more. */
static void renew(struct kp_task_samplers *s, uint64_t now_ns)
{
	struct kp_task_samplers old = *s;

	s->fd = NULL;
	s->fd_count = s->fd_room = 0;
	s->count = 0; /* entries are kept in place, or passed over */
	for (size_t i = 0; i < old.count; i++) {
		struct kp_task_sampled sampled = old.sampled[i];

		if ((is_within(sampled.begun_ns, YOUNG_NS, now_ns) ||
		     is_within(sampled.bore_ns, AWAKE_NS, now_ns)) &&
		    reserve_fds(s) && open_events(s, sampled.tid))
			s->sampled[s->count++] = sampled;
	}
	for (size_t i = 0; i < old.fd_count; i++)
		close(old.fd[i]);
	free(old.fd);
	s->made_ns = now_ns;
}

void kp_task_samplers_turn(struct kp_task_samplers *s, uint64_t now_ns)
{
	if (!s->awake)
		return;
	if (!is_within(s->birth_ns, AWAKE_NS, now_ns)) {
		s->awake = false;
		close_events(s);
	} else if (!is_within(s->made_ns, RENEW_NS, now_ns)) {
		renew(s, now_ns);
	}
}
