/*
 * kitprofd --pid PID --window TIME: windows of one process, one after another. A window's results
 * are made by a fork while the next one is sampled already, so that names take nothing from it.
 */
#include "daemon/cmd/serve.h"

#include "daemon/attach/target.h"
#include "daemon/cmd/output.h"
#include "daemon/cmd/sample.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/serve/name.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHORT_NS UINT64_C(1000000) /* less is no window any more */

struct windows {
	const struct kp_options *options;
	char dir[PATH_MAX];
	char name[64];
	uint64_t start_time; /* of the target: another process may get its pid */
	uint64_t deadline_ns; /* -d; UINT64_MAX: none */
	uint64_t begun_ns, seen_ns; /* sampling of this window began; went on for certain */
	int priority; /* before a session raised it */
	pid_t writer; /* of the window before; 0: none */
	int status; /* the exit status so far */
	/* Bases of what was written, oldest first: with --keep at most that many. */
	char **base;
	size_t count;
};

/* ---- results ---- */

static void remove_result(const struct kp_options *o, const char *base, const char *extension)
{
	struct kp_options of = { .output = base };
	char path[PATH_MAX + 16];

	if (unlink(kp_output_path(&of, extension, path, sizeof(path))) != 0 && errno != ENOENT &&
	    !o->quiet)
		kp_cmd_say("kitprofd", "an old result cannot be removed");
}

/* Only names that this process has made up, with the extensions that it has written. */
static void remove_results(const struct windows *w, const char *base)
{
	const struct kp_options *o = w->options;

	if (!o->no_raw)
		remove_result(o, base, ".kitprof");
	if (!o->no_folded)
		remove_result(o, base, ".folded");
	if (!o->no_flat)
		remove_result(o, base, ".flat");
	for (size_t i = 0; i < o->output_count; i++)
		remove_result(o, base, o->outputs[i].renderer->extension);
}

static void keep_newest(struct windows *w)
{
	if (!w->options->keep || w->count <= w->options->keep)
		return;
	remove_results(w, w->base[0]);
	free(w->base[0]);
	w->count--;
	memmove(&w->base[0], &w->base[1], w->count * sizeof(w->base[0]));
}

/* Without --keep nothing is ever removed and nothing need be remembered. */
static int remember(struct windows *w, const char *base, struct kp_err *err)
{
	char **grown;

	if (!w->options->keep)
		return 0;
	grown = reallocarray(w->base, w->count + 1, sizeof(*grown));
	if (!grown)
		return kp_fail_nomem(err);
	w->base = grown;
	w->base[w->count] = strdup(base);
	return w->base[w->count++] ? 0 : kp_fail_nomem(err);
}

static void wait_for_writer(struct windows *w)
{
	int status = 0;

	if (!w->writer)
		return;
	while (waitpid(w->writer, &status, 0) < 0 && errno == EINTR)
		;
	w->writer = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		w->status = KP_EXIT_ERROR;
	keep_newest(w);
}

static int write_results(const struct windows *w, const struct kp_options *o,
			 const struct kp_sampled *sampled)
{
	struct kp_err err;
	uint64_t kept;
	int r;

	setpriority(PRIO_PROCESS, 0, w->priority);
	r = kp_sample_write(o, "kitprofd", NULL, sampled, &kept, &err);
	if (r < 0)
		kp_cmd_say("kitprofd", err.text);
	return r < 0 ? KP_EXIT_ERROR : KP_EXIT_OK;
}

/* At most one at a time: who is slower than a window makes the next one wait. */
static int start_writer(struct windows *w, const struct kp_options *o,
			const struct kp_sampled *sampled, struct kp_err *err)
{
	wait_for_writer(w);
	fflush(NULL);
	w->writer = fork();
	if (w->writer == 0)
		_exit(write_results(w, o, sampled));
	if (w->writer > 0)
		return 0;
	w->writer = 0;
	return kp_fail_errno(err, "fork; %s has the samples",
			     sampled->raw_path ? sampled->raw_path : "nothing");
}

/* ---- windows ---- */

static bool is_told_to_end(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP);
}

static bool is_same_process(const struct windows *w)
{
	uint64_t start_time;

	return kp_proc_start_time(w->options->pid, &start_time, NULL) == 0 &&
	       start_time == w->start_time;
}

/*
 * A window that ended early (--cap, or the process took the signal away) is not followed at once by
 * another one: the process would be stopped again and again. true: told to end, or it has ended.
 */
static bool wait_out(const struct windows *w, uint64_t end_ns)
{
	while (kp_now_ns() < end_ns) {
		if (is_told_to_end() || !is_same_process(w))
			return true;
		usleep(100000);
	}
	return false;
}

/* The options of the next window. false: there is none, the time is over. */
static bool plan_window(const struct windows *w, char *base, size_t size, struct kp_options *ret)
{
	uint64_t now = kp_now_ns(), left = w->deadline_ns > now ? w->deadline_ns - now : 0;

	*ret = *w->options;
	ret->duration_ns = left < ret->window_ns ? left : ret->window_ns;
	ret->output = base;
	return left >= SHORT_NS &&
	       *kp_result_name(w->dir, w->name, 0, time(NULL), base, size - sizeof(".folded"));
}

/* The gap is measured from the last turn of one window to the first of the next. */
static void progress(void *ctx, const struct kp_session_progress *now_at)
{
	struct windows *w = ctx;
	uint64_t now = kp_now_ns(), before = w->seen_ns;
	char line[96];

	(void)now_at;
	w->seen_ns = now;
	if (w->begun_ns)
		return;
	w->begun_ns = now;
	if (!before || !w->options->verbose)
		return;
	snprintf(line, sizeof(line), "%.1f ms since the window before",
		 (double)(now - before) / 1e6);
	kp_cmd_say("kitprofd", line);
}

/* < 0: no window came about. *ret_more: another one may follow. */
static int sample_window(struct windows *w, const struct kp_options *o, bool *ret_more,
			 struct kp_err *err)
{
	struct kp_sample_watch watch = { .progress = progress, .ctx = w };
	struct kp_sampled sampled;
	int r;

	*ret_more = false;
	w->begun_ns = 0;
	r = kp_sample_window(o, "kitprofd", NULL, &watch, &sampled, err);
	if (r < 0)
		return r;
	*ret_more =
		sampled.result.why != KP_RAW_END_TARGET && sampled.result.why != KP_RAW_END_SIGNAL;
	r = start_writer(w, o, &sampled, err);
	if (r == 0)
		r = remember(w, o->output, err);
	kp_session_result_deinit(&sampled.result);
	return r;
}

static int sample_all(struct windows *w, struct kp_err *err)
{
	bool more = true;

	for (size_t n = 0; more && !is_told_to_end(); n++) {
		char base[PATH_MAX];
		struct kp_options o;
		uint64_t end_ns;
		int r;

		if (!plan_window(w, base, sizeof(base), &o) || (n && !is_same_process(w)))
			break;
		strcat(base, ".folded");
		end_ns = kp_now_ns() + o.duration_ns;
		r = sample_window(w, &o, &more, err);
		if (r < 0 && n && !is_same_process(w))
			break; /* it ended while it was attached to anew */
		if (r < 0)
			return r;
		more = more && !wait_out(w, end_ns);
	}
	return 0;
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

/* -o NAME.folded, else the process's name. */
static void name_windows(struct windows *w, const char *comm)
{
	static const char folded[] = ".folded";
	const char *output = w->options->output;
	size_t len = output ? strlen(output) : 0, tail = sizeof(folded) - 1;

	if (output && len > tail && strcmp(output + len - tail, folded) == 0)
		len -= tail;
	snprintf(w->name, sizeof(w->name), "%.*s", output ? (int)len : (int)sizeof(w->name) - 1,
		 output ? output : comm);
}

static int prepare(struct windows *w, struct kp_err *err)
{
	const struct kp_options *o = w->options;
	struct kp_target target;
	int r = kp_serve_directory(o, w->dir, err);

	if (r == 0 && o->output && strchr(o->output, '/'))
		r = kp_fail(err, KP_EUSAGE, "-o %s: with --window it is a name; --dir says where",
			    o->output);
	for (size_t i = 0; r == 0 && i < o->output_count; i++)
		if (o->outputs[i].path)
			r = kp_fail(
				err, KP_EUSAGE,
				"--format %s:%s: with --window files have the name of the window",
				o->outputs[i].renderer->name, o->outputs[i].path);
	if (r == 0)
		r = kp_target_check(o->pid, o->signal, &target, err);
	if (r < 0)
		return r;
	w->start_time = target.start_time;
	w->priority = getpriority(PRIO_PROCESS, 0);
	w->deadline_ns = o->duration_ns ? kp_now_ns() + o->duration_ns : UINT64_MAX;
	name_windows(w, target.comm);
	block_signals();
	return 0;
}

int kp_windows(const struct kp_options *options)
{
	struct windows w = { .options = options };
	struct kp_err err;
	int r = prepare(&w, &err);

	if (r == 0)
		r = sample_all(&w, &err);
	if (r < 0) {
		kp_cmd_say("kitprofd", err.text);
		w.status = r == -KP_EUSAGE ? KP_EXIT_USAGE : KP_EXIT_ERROR;
	}
	wait_for_writer(&w);
	while (w.count)
		free(w.base[--w.count]);
	free(w.base);
	return w.status;
}
