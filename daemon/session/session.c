/* One profiling session: session.h. */
#include "daemon/session/session.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/session/lookout.h"
#include "daemon/session/prepare.h"
#include "daemon/session/priority.h"
#include "daemon/session/raw_sink.h"
#include "daemon/session/signals.h"
#include "daemon/session/family.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define TURN_NS (10 * MS)
#define YOUNG_TURN_NS (MS / 2) /* less than the first period of a new thread, at 999 Hz */
#define YOUNG_NS (30 * MS)
#define EARLY_MIN_NS (MS / 4) /* period of early samples at least */
#define EARLY_MAX_NS (2 * MS) /* at most: with longer ones short lives are in none */

struct session {
	const struct kp_session_options *options;
	struct kp_attachment_plan plan;
	struct kp_raw_sink sink;
	struct kp_pins *pins;
	struct kp_store *store; /* NULL: frame pointers only */
	struct kp_task_events *events; /* NULL: not allowed here */
	struct kp_lookout *lookout;
	struct kp_signals signals;
	struct kp_family family;
	int pidfd; /* of the target */
	struct kp_priority priority;
	bool told; /* by a signal to end */
	pid_t child; /* run: until it is waited for */
	int exit_status;
	uint64_t start_ns, deadline_ns;
	uint64_t own_cpu_start_ns;
	uint64_t children_cpu_ns; /* run: of the program and what it waited for, from the kernel */
};

__attribute__((format(printf, 2, 3))) static void say(const struct session *s, const char *fmt, ...)
{
	char line[640];
	va_list args;

	if (!s->options->say)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	s->options->say(s->options->ctx, line);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t elapsed_ns(const struct session *s)
{
	return kp_now_ns() - s->start_ns;
}

/* Many threads mean many event descriptors. The limit of the program itself is not touched. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* In the child, before it execs. */
static void become_as_before(void *ctx)
{
	struct session *s = ctx;

	kp_signals_restore(&s->signals);
	kp_priority_restore(&s->priority);
}

/* ---- start ---- */

static void join_command(char *const *argv, char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = 0;
	for (; argv && *argv && used < size - 1; argv++) {
		int n = snprintf(ret + used, size - used, "%s%s", used ? " " : "", *argv);

		used += n > 0 ? (size_t)n : 0;
	}
}

static enum kp_raw_mode mode_of(const struct kp_session_options *o)
{
	if (o->argv)
		return KP_RAW_MODE_RUN;
	return o->all ? KP_RAW_MODE_ALL : KP_RAW_MODE_ATTACH;
}

/* The file's head is written before the agent is in the target: the records follow at once. */
static int put_session(struct session *s, struct kp_err *err)
{
	const struct kp_session_options *o = s->options;
	struct utsname host = { 0 };
	struct timespec wall;
	char command[4096];
	struct kp_raw_session record = {
		.elf_machine = kp_target_machine(),
		.rate_mhz = (uint32_t)o->rate_mhz,
		.depth = o->depth,
		.mode = mode_of(o),
		.creator = kp_raw_string("kitprof " KP_VERSION),
	};
	int r = kp_raw_put_header(&s->sink.writer, err);

	clock_gettime(CLOCK_REALTIME, &wall);
	uname(&host);
	join_command(o->argv, command, sizeof(command));
	record.start_unix_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	record.command = kp_raw_string(command);
	record.host = kp_raw_string(host.nodename);
	return r < 0 ? r : kp_raw_put_session(&s->sink.writer, &record, err);
}

static void family_say(void *ctx, const char *line)
{
	say(ctx, "%s", line);
}

static void begin_window(struct session *s, uint64_t start_ns)
{
	uint64_t duration_ns = s->options->duration_ns;

	s->start_ns = s->plan.start_ns = start_ns;
	s->deadline_ns = duration_ns ? start_ns + duration_ns : UINT64_MAX;
	s->own_cpu_start_ns = own_cpu_ns();
}

static int turn(struct session *s, struct kp_err *err)
{
	int r;

	if (s->store)
		kp_store_turn(s->store);
	kp_priority_renew(&s->priority);
	r = kp_family_turn(&s->family, elapsed_ns(s), err);
	return r < 0 ? r : kp_raw_sink_flush(&s->sink, err);
}

/* Until all that is there now has been tried. The window has begun with the first of them. */
static int open_all(struct session *s, struct kp_err *err)
{
	const struct kp_session_options *o = s->options;
	int r;

	raise_descriptor_limit();
	begin_window(s, kp_now_ns());
	r = kp_family_attach_all(&s->family, o->all, !o->follow, err);
	while (r == 0 && !s->told && !kp_family_is_settled(&s->family)) {
		r = turn(s, err);
		s->told = kp_signals_read(&s->signals, 0);
	}
	if (r == 0 && kp_family_live(&s->family) == 0)
		r = kp_fail(err, KP_EREFUSED, "all: %s", kp_family_note(&s->family));
	if (r == 0)
		say(s, "all: %s", kp_family_note(&s->family));
	return r;
}

static int open_target(struct session *s, struct kp_err *err)
{
	const struct kp_session_options *o = s->options;
	int r = o->argv ? kp_family_launch(&s->family, o->argv, become_as_before, s, err)
			: kp_family_attach(&s->family, o->pid, err);
	const struct kp_attachment *a;

	if (r != 0)
		return r;
	a = &s->family.process[0]->attachment;
	if (o->argv)
		s->child = a->target.pid;
	begin_window(s, a->attached_ns);
	s->pidfd = (int)syscall(SYS_pidfd_open, a->target.pid, 0);
	raise_descriptor_limit();
	kp_priority_raise_more(&s->priority);
	return 0;
}

/* How long a thread has waited is what the kernel does not account for otherwise. */
static int check_waiting(struct kp_err *err)
{
	struct kp_proc_sched sched;

	if (kp_proc_sched(getpid(), getpid(), &sched) && sched.runs)
		return 0;
	return kp_fail(err, KP_ESYSTEM,
		       "--clock wall: this kernel does not say how long threads have run and "
		       "waited for a CPU (/proc/PID/schedstat, CONFIG_SCHED_INFO)");
}

/* Without a place on disk tables are built in each session. */
static int open_store(struct session *s, struct kp_err *err)
{
	char why[256];
	int r;

	if (s->plan.unwind == KP_UNWIND_FP)
		return 0;
	r = kp_prepare_store(kp_target_machine(), &s->store, why, sizeof(why), err);
	if (r == 0 && why[0] && s->options->verbose)
		say(s, "unwind tables are not kept on disk: %s", why);
	s->plan.store = s->store;
	return r;
}

/*
 * With many processes memory counts: a quarter of a second of all CPUs in each ring, as no process
 * can have more than that.
 */
static uint32_t cells_of_many(uint64_t rate_mhz)
{
	uint64_t cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t cells = rate_mhz * cpus / 4000;
	uint32_t power = 128;

	while (power < cells && power < 4096)
		power *= 2;
	return power;
}

/*
 * What is born is sampled by the kernel from its first instruction on, twice as often as by its own
 * clock: its life may be short. Only where samples are close anyway.
 */
static void sample_early(struct session *s)
{
	const struct kp_clock_plan *clocks = &s->plan.clocks;
	uint64_t half_ns = clocks->event.ns / 2;
	uint64_t period_ns = half_ns > EARLY_MIN_NS ? half_ns : EARLY_MIN_NS;

	if (!s->events || !clocks->has_event || clocks->event.ns > EARLY_MAX_NS)
		return;
	if (kp_task_events_sample(s->events, period_ns))
		s->plan.early_period_ns = period_ns;
}

static int prepare(struct session *s, struct kp_err *err)
{
	const struct kp_session_options *o = s->options;
	int r = kp_clock_choose(o->clock, o->rate_mhz, &s->plan.clocks, err);

	if (r < 0)
		return r;
	if (s->plan.clocks.why[0])
		say(s, "%s", s->plan.clocks.why);
	if (s->plan.clocks.wait_period_ns)
		r = check_waiting(err);
	if (r < 0)
		return r;
	kp_priority_raise(&s->priority);
	r = kp_pins_create(&s->pins, err);
	if (r == 0)
		r = kp_signals_init(&s->signals, err);
	if (r == 0)
		r = kp_lookout_create(!o->no_stops, family_say, s, &s->lookout, err);
	if (r == 0)
		r = kp_raw_sink_open(&s->sink, o->raw_path, err);
	if (r < 0)
		return r;
	/* Without task events /proc is looked at instead, which is slower to notice. */
	if (kp_task_events_create(!o->follow, &s->events, NULL) < 0)
		s->events = NULL;
	sample_early(s);
	s->plan.rate_mhz = o->rate_mhz;
	s->plan.depth = o->depth;
	s->plan.unwind = o->unwind;
	s->plan.slice_bytes = o->slice_bytes;
	s->plan.signal = o->signal;
	s->plan.left = o->cap;
	s->plan.writer = &s->sink.writer;
	s->plan.pins = s->pins;
	s->plan.events = s->events;
	s->plan.cells_max = o->all ? cells_of_many(o->rate_mhz) : 0;
	s->plan.lookout = s->lookout;
	r = open_store(s, err);
	if (r < 0)
		return r;
	kp_family_init(&s->family, &s->plan, o->follow, family_say, s);
	return put_session(s, err);
}

/* ---- the window ---- */

static bool has_ended(const struct session *s)
{
	struct pollfd ended = { .fd = s->pidfd, .events = POLLIN };

	if (s->options->all)
		return s->family.count == 0;
	if (s->pidfd >= 0)
		return poll(&ended, 1, 0) > 0;
	return kill(s->family.process[0]->pid, 0) != 0 && errno == ESRCH;
}

static void tell_progress(const struct session *s, const char *note)
{
	struct kp_session_progress progress = { .processes = kp_family_live(&s->family),
						.note = note };
	struct kp_ring_counts counts;

	if (!s->options->progress)
		return;
	kp_family_count(&s->family, &counts);
	progress.kept = counts.kept;
	s->options->progress(s->options->ctx, &progress);
}

/* What the turn found; 0: the window goes on. */
static enum kp_raw_end_why look_around(struct session *s)
{
	struct kp_ring_counts counts;

	kp_family_count(&s->family, &counts);
	if (s->plan.left == 0 || counts.dropped_cap > 0)
		return KP_RAW_END_FULL;
	if (has_ended(s))
		return KP_RAW_END_TARGET;
	if (kp_now_ns() >= s->deadline_ns)
		return KP_RAW_END_TIME;
	return s->family.target_lost ? KP_RAW_END_HANDLER : 0;
}

static void wait_for(struct pollfd *fds, nfds_t count, uint64_t ns)
{
	struct timespec limit = { .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };

	ppoll(fds, count, &limit, NULL);
}

/*
 * Until the target ends, a signal comes, something is born or loaded, or the turn's time is over.
 * True when kitprof was told to end.
 */
static bool wait_turn(struct session *s)
{
	struct pollfd fds[5] = { { .fd = s->signals.fd, .events = POLLIN },
				 { .fd = s->pidfd, .events = POLLIN },
				 { .fd = s->events ? kp_task_events_fd(s->events) : -1,
				   .events = POLLIN },
				 { .fd = s->store ? kp_store_fd(s->store) : -1, .events = POLLIN },
				 { .events = POLLIN } };
	bool hurry =
		kp_family_is_in_a_hurry(&s->family) || (!s->events && elapsed_ns(s) < YOUNG_NS);
	uint64_t end = kp_now_ns() + (hurry ? YOUNG_TURN_NS : TURN_NS);
	uint64_t until, now;

	/* Threads that are looked at have a pace of their own, which needs no whole turn. */
	do {
		kp_lookout_serve(s->lookout);
		fds[4].fd = kp_lookout_fd(s->lookout);
		until = kp_lookout_due_ns(s->lookout);
		until = until < end ? until : end;
		now = kp_now_ns();
		wait_for(fds, 5, until > now ? until - now : 0);
	} while (!fds[0].revents && !fds[1].revents && !fds[2].revents && !fds[3].revents &&
		 kp_now_ns() < end);
	return fds[0].revents && kp_signals_read(&s->signals, s->child);
}

static enum kp_raw_end_why window(struct session *s)
{
	enum kp_raw_end_why why = 0;
	struct kp_err err;

	tell_progress(s, s->options->all ? kp_family_note(&s->family) : NULL);
	while (!why) {
		bool told = wait_turn(s) || s->told;

		if (turn(s, &err) < 0) {
			say(s, "warning: %s; the window ends here", err.text);
			why = KP_RAW_END_SIGNAL;
		}
		if (told)
			why = KP_RAW_END_SIGNAL;
		if (!why)
			why = look_around(s);
		tell_progress(s, NULL);
	}
	return why;
}

/* ---- the end ---- */

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000;
}

/* The kernel's own sums know also what was too short for us to see. */
static void reap(struct session *s)
{
	struct rusage usage;

	kp_proc_cpu_ns(s->child, &s->family.process[0]->cpu_ns);
	while (wait4(s->child, &s->exit_status, 0, &usage) < 0 && errno == EINTR)
		;
	s->children_cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	s->child = 0;
	s->family.sums.exit_status = (uint32_t)s->exit_status;
}

/* The greater of what was watched and what the kernel says of a program that was waited for. */
static uint64_t cpu_of_window_ns(const struct session *s)
{
	uint64_t watched = kp_family_cpu_ns(&s->family);

	return s->options->follow && s->children_cpu_ns > watched ? s->children_cpu_ns : watched;
}

static void sum_up_lookout(struct session *s, struct kp_raw_end *end)
{
	struct kp_lookout_sums sums;

	kp_lookout_sum(s->lookout, &sums);
	end->stops = sums.stops;
	end->stops_ns = sums.stops_ns;
	end->clamped = sums.clamped;
	end->own_cpu_ns += sums.cpu_ns;
}

static int finish(struct session *s, enum kp_raw_end_why why, struct kp_err *err)
{
	struct kp_raw_end *end = &s->family.sums;
	int r;

	end->window_ns = elapsed_ns(s);
	end->own_cpu_ns = own_cpu_ns() - s->own_cpu_start_ns;
	end->why = why;
	kp_family_close(&s->family, end->window_ns);
	sum_up_lookout(s, end);
	if (s->child && why == KP_RAW_END_TARGET)
		reap(s);
	end->cpu_ns = cpu_of_window_ns(s);
	if (s->store)
		end->own_cpu_ns += kp_store_cpu_ns(s->store);
	r = kp_raw_put_end(&s->sink.writer, end, err);
	if (r == 0)
		r = kp_raw_sink_flush(&s->sink, err);
	return r;
}

static void deinit(struct session *s)
{
	if (s->family.plan)
		kp_family_close(&s->family, elapsed_ns(s));
	kp_family_deinit(&s->family);
	kp_lookout_destroy(s->lookout);
	kp_store_destroy(s->store);
	kp_task_events_destroy(s->events);
	kp_raw_sink_close(&s->sink);
	kp_signals_deinit(&s->signals);
	kp_pins_destroy(s->pins);
	kp_closep(&s->pidfd);
	kp_priority_restore(&s->priority);
}

static int run(struct session *s, struct kp_session_result *ret, struct kp_err *err)
{
	struct kp_err late;
	int r = prepare(s, err);

	if (r == 0)
		r = s->options->all ? open_all(s, err) : open_target(s, err);
	if (r != 0)
		return r;
	ret->why = window(s);
	if (finish(s, ret->why, &late) < 0)
		say(s, "warning: %s", late.text);
	r = kp_raw_sink_map(&s->sink, &ret->raw, &ret->raw_size, err);
	if (r < 0)
		return r;
	ret->pins = kp_take(s->pins);
	ret->child = s->child;
	ret->exit_status = s->exit_status;
	return 0;
}

int kp_session_run(const struct kp_session_options *options, struct kp_session_result *ret,
		   struct kp_err *err)
{
	struct session *s = calloc(1, sizeof(*s));
	int r;

	*ret = (struct kp_session_result){ 0 };
	if (!s)
		return kp_fail_nomem(err);
	s->options = options;
	s->pidfd = s->sink.fd = s->signals.fd = -1;
	r = run(s, ret, err);
	deinit(s);
	free(s);
	return r;
}

void kp_session_result_deinit(struct kp_session_result *result)
{
	if (result->raw)
		munmap(result->raw, result->raw_size);
	kp_pins_destroy(result->pins);
	*result = (struct kp_session_result){ 0 };
}

int kp_session_wait_child(pid_t child)
{
	int pidfd = (int)syscall(SYS_pidfd_open, child, 0), status = 0;
	struct kp_signals signals;

	if (kp_signals_init(&signals, NULL) == 0) {
		struct pollfd fds[2] = { { .fd = signals.fd, .events = POLLIN },
					 { .fd = pidfd, .events = POLLIN } };

		while (pidfd >= 0 && !fds[1].revents) {
			poll(fds, 2, -1);
			kp_signals_read(&signals, child);
		}
		kp_signals_deinit(&signals);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	kp_closep(&pidfd);
	return status;
}

int kp_session_cleanup(pid_t pid, bool *ret_found, struct kp_err *err)
{
	struct kp_target target;
	int r = kp_target_check(pid, 0, &target, err);

	*ret_found = target.leftover_base != 0;
	if (!*ret_found)
		return r;
	return r < 0 ? r
		     : kp_remove(pid, NULL, target.leftover_base, target.leftover_end, 0, NULL,
				 err);
}
