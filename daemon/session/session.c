/* One profiling session: session.h. */
#include "daemon/session/session.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/session/attachment.h"
#include "daemon/session/raw_sink.h"
#include "daemon/session/signals.h"

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
#define TURN_MS 10
#define YOUNG_TURN_MS 1
#define YOUNG_NS (30 * MS)
#define ACTION_CHECK_NS (100 * MS)
#define SILENCE_NS (1000 * MS)	   /* CPU used without any sample before the handler is looked up */

struct session {
	const struct kp_session_options *options;
	struct kp_clock_plan clocks;
	struct kp_raw_sink sink;
	struct kp_pins *pins;
	struct kp_signals signals;
	struct kp_attachment attachment;
	int pidfd;
	pid_t child; /* run: until it is waited for */
	int exit_status;
	uint64_t start_ns, deadline_ns;
	uint64_t cpu_start_ns, cpu_ns; /* of the target: at the start, now */
	uint64_t own_cpu_start_ns;
	uint64_t action_check_ns;
	uint64_t silent_cpu_ns, silent_taken; /* when samples came last */
	struct kp_raw_end end;	/* sums over the attachments so far */
	bool reaped;
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

/* The file's head is written before the agent is in the target: the records follow at once. */
static int put_session(struct session *s, struct kp_err *err)
{
	const struct kp_session_options *o = s->options;
	struct utsname host = { 0 };
	struct timespec wall;
	char command[4096];
	struct kp_raw_session record = {
		.elf_machine = 0,
		.rate_mhz = (uint32_t)o->rate_mhz,
		.depth = o->depth,
		.mode = o->argv ? KP_RAW_MODE_RUN : KP_RAW_MODE_ATTACH,
		.creator = kp_raw_string("kitprof " KP_VERSION),
	};
	int r = kp_raw_put_header(&s->sink.writer, err);

	clock_gettime(CLOCK_REALTIME, &wall);
	uname(&host);
	join_command(o->argv, command, sizeof(command));
	record.start_unix_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	record.elf_machine = kp_target_machine();
	record.command = kp_raw_string(command);
	record.host = kp_raw_string(host.nodename);
	return r < 0 ? r : kp_raw_put_session(&s->sink.writer, &record, err);
}

static struct kp_attachment_options attachment_options(struct session *s)
{
	uint64_t kept = s->end.lost.kept;

	return (struct kp_attachment_options){
		.rate_mhz = s->options->rate_mhz,
		.depth = s->options->depth,
		.cap = s->options->cap > kept ? s->options->cap - kept : 1,
		.signal = s->options->signal,
		.clocks = &s->clocks,
		.writer = &s->sink.writer,
		.pins = s->pins,
	};
}

/* What a dead kitprof left is removed, then the target is looked at again. */
static int check_target(struct session *s, pid_t pid, struct kp_target *ret, struct kp_err *err)
{
	int r = kp_target_check(pid, s->options->signal, ret, err);

	if (r < 0 || !ret->leftover_base)
		return r;
	say(s, "pid %d: removing what a killed kitprof left", (int)pid);
	r = kp_remove(pid, NULL, ret->leftover_base, ret->leftover_end, 0, NULL, err);
	return r < 0 ? r : kp_target_check(pid, s->options->signal, ret, err);
}

static int attach(struct session *s, pid_t pid, struct kp_err *err)
{
	struct kp_attachment_options options = attachment_options(s);
	struct kp_target target;
	int r = check_target(s, pid, &target, err);

	return r < 0 ? r : kp_attachment_open(&s->attachment, &options, &target, err);
}

static int launch(struct session *s, struct kp_err *err)
{
	struct kp_attachment_options options = attachment_options(s);
	int r = kp_attachment_launch(&s->attachment, &options, s->options->argv, kp_signals_restore,
				     &s->signals, err);

	if (r == 0)
		s->child = s->attachment.target.pid;
	return r;
}

static int open_target(struct session *s, struct kp_err *err)
{
	pid_t pid = s->options->pid;
	int r = s->options->argv ? launch(s, err) : attach(s, pid, err);

	if (r != 0)
		return r;
	pid = s->attachment.target.pid;
	s->end.stop_attach_ns = s->attachment.stopped_ns;
	s->start_ns = s->attachment.attached_ns;
	s->deadline_ns = s->options->duration_ns ? s->start_ns + s->options->duration_ns : UINT64_MAX;
	if (kp_proc_cpu_ns(pid, &s->cpu_start_ns))
		s->cpu_ns = s->silent_cpu_ns = s->cpu_start_ns;
	s->own_cpu_start_ns = own_cpu_ns();
	s->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	raise_descriptor_limit();
	return 0;
}

static int prepare(struct session *s, struct kp_err *err)
{
	int r = kp_clock_choose(s->options->clock, s->options->rate_mhz, &s->clocks, err);

	if (r < 0)
		return r;
	if (s->clocks.why[0])
		say(s, "%s", s->clocks.why);
	r = kp_pins_create(&s->pins, err);
	if (r == 0)
		r = kp_signals_init(&s->signals, err);
	if (r == 0)
		r = kp_raw_sink_open(&s->sink, s->options->raw_path, err);
	return r < 0 ? r : put_session(s, err);
}

/* ---- the window ---- */

static bool has_ended(const struct session *s)
{
	struct pollfd ended = { .fd = s->pidfd, .events = POLLIN };

	if (s->pidfd >= 0)
		return poll(&ended, 1, 0) > 0;
	return kill(s->attachment.target.pid, 0) != 0 && errno == ESRCH;
}

/* With two clocks a thread that one of them misses is not sampled whole; most miss both or none. */
static uint32_t unsampled(const struct kp_attachment *a)
{
	uint32_t events = a->task ? a->task->failed : 0;

	return events > a->timer->failed ? events : a->timer->failed;
}

static void add_attachment(struct session *s, uint64_t stop_ns)
{
	struct kp_attachment *a = &s->attachment;
	struct kp_ring_counts counts;

	kp_ring_count(&a->drain.reader, &counts);
	s->end.lost.taken += counts.taken;
	s->end.lost.kept += counts.kept;
	s->end.lost.dropped_full += counts.dropped_full;
	s->end.lost.dropped_cap += counts.dropped_cap;
	s->end.lost.abandoned += counts.abandoned;
	s->end.lost.bad += counts.bad;
	s->end.overruns += a->drain.overruns;
	s->end.threads_seen += (uint32_t)a->threads.seen;
	s->end.threads_unsampled += unsampled(a);
	s->end.stop_detach_ns += stop_ns;
	s->end.stop_attach_ns = s->end.stop_attach_ns > a->stopped_ns ? s->end.stop_attach_ns : a->stopped_ns;
}

static void close_attachment(struct session *s)
{
	struct kp_err err;
	uint64_t stop_ns;

	if (!s->attachment.live)
		return;
	if (kp_attachment_close(&s->attachment, elapsed_ns(s), &stop_ns, &err) < 0)
		say(s, "warning: %s", err.text);
	add_attachment(s, stop_ns);
	kp_attachment_deinit(&s->attachment);
}

/*
 * The signal is not caught any more: either the program is another one now (exec), which gets the
 * agent anew, or the target has taken the signal away.
 */
static enum kp_raw_end_why handler_lost(struct session *s)
{
	pid_t pid = s->attachment.target.pid;
	bool was_exec = !kp_is_injected(pid, s->attachment.map.base);
	struct kp_err err;

	if (has_ended(s))
		return 0;
	close_attachment(s);
	if (!was_exec)
		return KP_RAW_END_HANDLER;
	if (attach(s, pid, &err) == 0)
		return 0;
	say(s, "pid %d has executed another program, which cannot be profiled: %s", (int)pid, err.text);
	return KP_RAW_END_HANDLER;
}

/* A handler of the target's own in place of ours shows only in that no samples come. */
static bool is_silent(struct session *s, uint64_t taken)
{
	const struct kp_shm_head *head = s->attachment.map.head;
	uint64_t signals = taken + __atomic_load_n(&head->user_ticks, __ATOMIC_RELAXED) +
			   __atomic_load_n(&head->foreign, __ATOMIC_RELAXED);

	if (signals != s->silent_taken || s->cpu_ns < s->silent_cpu_ns) {
		s->silent_taken = signals;
		s->silent_cpu_ns = s->cpu_ns;
		return false;
	}
	return s->cpu_ns - s->silent_cpu_ns > SILENCE_NS;
}

static enum kp_raw_end_why check_handler(struct session *s, uint64_t taken)
{
	struct kp_attachment *a = &s->attachment;
	struct kp_proc_status status;
	bool ours;

	if (kp_now_ns() - s->action_check_ns < ACTION_CHECK_NS &&
	    kp_now_ns() - a->attached_ns > YOUNG_NS)
		return 0;
	s->action_check_ns = kp_now_ns();
	if (kp_proc_status(a->target.pid, a->target.pid, &status, NULL) < 0)
		return 0;
	if (!(status.sig_caught & kp_signal_bit(a->signal)) && status.state != 'Z')
		return handler_lost(s);
	if (!is_silent(s, taken))
		return 0;
	s->silent_cpu_ns = s->cpu_ns;
	if (kp_handler_is_ours(a->target.pid, &a->map, a->signal, &ours, NULL) == 0 && !ours)
		return handler_lost(s);
	return 0;
}

static bool is_full(const struct session *s, const struct kp_ring_counts *counts)
{
	return counts->dropped_cap > 0 || s->end.lost.kept + counts->kept >= s->options->cap;
}

/* What the turn found; 0: the window goes on. */
static enum kp_raw_end_why look_around(struct session *s)
{
	struct kp_ring_counts counts;
	uint64_t cpu_ns;

	kp_ring_count(&s->attachment.drain.reader, &counts);
	if (is_full(s, &counts))
		return KP_RAW_END_FULL;
	if (has_ended(s))
		return KP_RAW_END_TARGET;
	if (kp_proc_cpu_ns(s->attachment.target.pid, &cpu_ns) && cpu_ns > s->cpu_ns)
		s->cpu_ns = cpu_ns;
	if (kp_now_ns() >= s->deadline_ns)
		return KP_RAW_END_TIME;
	return check_handler(s, counts.taken);
}

/* Until the target ends, a signal comes, or the turn's time is over. */
static bool wait_turn(struct session *s)
{
	struct pollfd fds[2] = { { .fd = s->signals.fd, .events = POLLIN },
				 { .fd = s->pidfd, .events = POLLIN } };
	bool young = kp_now_ns() - s->attachment.attached_ns < YOUNG_NS;

	poll(fds, 2, young ? YOUNG_TURN_MS : TURN_MS);
	return fds[0].revents && kp_signals_read(&s->signals, s->child);
}

static enum kp_raw_end_why window(struct session *s)
{
	enum kp_raw_end_why why = 0;
	struct kp_err err;

	while (!why) {
		bool told = wait_turn(s);

		if (kp_attachment_turn(&s->attachment, elapsed_ns(s), &err) < 0 ||
		    kp_raw_sink_flush(&s->sink, &err) < 0) {
			say(s, "warning: %s; the window ends here", err.text);
			why = KP_RAW_END_SIGNAL;
		}
		if (told)
			why = KP_RAW_END_SIGNAL;
		if (!why)
			why = look_around(s);
	}
	return why;
}

/* ---- the end ---- */

/* The kernel's own sum, which a zombie still has. */
static void reap(struct session *s)
{
	struct rusage usage;

	kp_proc_cpu_ns(s->child, &s->cpu_ns);
	while (wait4(s->child, &s->exit_status, 0, &usage) < 0 && errno == EINTR)
		;
	s->child = 0;
	s->end.exit_status = (uint32_t)s->exit_status;
}

static int finish(struct session *s, enum kp_raw_end_why why, struct kp_err *err)
{
	int r;

	s->end.window_ns = elapsed_ns(s);
	s->end.own_cpu_ns = own_cpu_ns() - s->own_cpu_start_ns;
	s->end.why = why;
	close_attachment(s);
	if (s->child && why == KP_RAW_END_TARGET)
		reap(s);
	s->end.cpu_ns = s->cpu_ns - s->cpu_start_ns;
	r = kp_raw_put_end(&s->sink.writer, &s->end, err);
	if (r == 0)
		r = kp_raw_sink_flush(&s->sink, err);
	return r;
}

static void deinit(struct session *s)
{
	close_attachment(s);
	kp_attachment_deinit(&s->attachment);
	kp_raw_sink_close(&s->sink);
	kp_signals_deinit(&s->signals);
	kp_pins_destroy(s->pins);
	kp_closep(&s->pidfd);
}

static int run(struct session *s, struct kp_session_result *ret, struct kp_err *err)
{
	struct kp_err late;
	int r = prepare(s, err);

	if (r == 0)
		r = open_target(s, err);
	if (r != 0)
		return r;
	if (finish(s, window(s), &late) < 0)
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
	s->pidfd = s->sink.fd = s->signals.fd = s->attachment.map.fd = -1;
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
	return r < 0 ? r : kp_remove(pid, NULL, target.leftover_base, target.leftover_end, 0, NULL, err);
}
