/*
 * kitprofd without --pid: what the server of daemon/serve/ needs to know of options, targets and
 * results. Server and, from work() on, its workers.
 */
#include "daemon/cmd/serve.h"

#include "daemon/cmd/control.h"
#include "daemon/cmd/output.h"
#include "daemon/cmd/sample.h"
#include "daemon/cmd/whom.h"
#include "daemon/linux/proc.h"
#include "daemon/serve/name.h"
#include "daemon/serve/server.h"
#include "daemon/serve/socket.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct glue {
	bool quiet;
	char dir[PATH_MAX];
};

int kp_serve_directory(const struct kp_options *options, char *ret, struct kp_err *err)
{
	const char *dir = options->dir ? options->dir : ".";
	struct stat st;

	if (!realpath(dir, ret) || stat(ret, &st) != 0)
		return kp_fail_errno(err, "--dir %s", dir);
	if (!S_ISDIR(st.st_mode))
		return kp_fail(err, KP_EUSAGE, "--dir %s: not a directory", dir);
	if (access(ret, W_OK | X_OK) != 0)
		return kp_fail_errno(err, "results cannot be written into %s; give --dir", ret);
	return 0;
}

static void say(void *ctx, const char *line)
{
	const struct glue *glue = ctx;

	if (!glue->quiet)
		kp_cmd_say("kitprofd", line);
}

/* The words of a request are a command line. What is said by -h and -V is not for a server. */
static int parse(const struct kp_request *request, struct kp_options *ret, struct kp_err *err)
{
	static char name[] = "on";
	char *argv[KP_CONTROL_OPTIONS_MAX + 2] = { name };
	int argc = 1, r;

	for (char **word = request->options; word && *word; word++)
		argv[argc++] = *word;
	r = kp_options_parse(KP_COMMAND_ON, argc, argv, ret, err);
	if (r == 0 && (ret->rest[0] || ret->help || ret->version))
		r = kp_fail(err, KP_EUSAGE, "on: the options are no options of `kitprof on`");
	if (r == 0)
		r = kp_control_check_on(ret, err);
	/* The client says so in fields, and may leave the words. */
	if (r == 0 && (ret->all || ret->everyone || ret->user) && !request->all)
		r = kp_fail(err, KP_EUSAGE, "on: all, user and everyone are fields of a request");
	ret->words = ret->rest = NULL; /* they go with argv */
	ret->pid = request->pid;
	return r;
}

static void put_word(struct kp_served *served, const char *word)
{
	size_t used = strlen(served->options);

	snprintf(served->options + used, sizeof(served->options) - used, "%s%s", used ? " " : "",
		 word);
}

/* The name that a session has: of the process, or of those whose processes they are. */
static int name_target(const struct kp_request *request, struct kp_served *ret, struct kp_err *err)
{
	struct kp_proc_status status;
	struct kp_whom whom;
	int r = request->all
			? kp_whom_resolve(request->user, request->everyone, geteuid(), &whom, err)
			: kp_proc_status(request->pid, request->pid, &status, err);

	if (r == 0)
		snprintf(ret->comm, sizeof(ret->comm), "%s",
			 request->all ? whom.name : status.name);
	return r;
}

/*
 * Whether the process may be profiled is for the worker to find out: it reads what can take long, if
 * the process is in a bad way, and the server is there for the others too.
 */
static int check(void *ctx, const struct kp_request *request, struct kp_served *ret,
		 struct kp_err *err)
{
	struct kp_options options;
	int r = parse(request, &options, err);

	(void)ctx;
	if (r == 0)
		r = name_target(request, ret, err);
	for (char **word = request->options; r == 0 && word && *word; word++)
		put_word(ret, *word);
	return r;
}

/* ---- in the worker ---- */

struct work {
	struct kp_worker_desk *desk;
	const char *raw_path; /* NULL: none */
	bool begun;
};

static void progress(void *ctx, const struct kp_session_progress *progress)
{
	struct work *work = ctx;

	kp_worker_tell_samples(work->desk, progress->kept);
	kp_worker_tell_processes(work->desk, progress->processes);
	if (work->begun)
		return;
	work->begun = true;
	if (progress->note)
		kp_worker_tell_note(work->desk, progress->note);
	/* From now on there is something in it, whatever happens. */
	if (work->raw_path)
		kp_worker_tell_file(work->desk, work->raw_path);
	kp_worker_tell_state(work->desk, KP_SERVED_SAMPLING);
}

static void kept(void *ctx, uint64_t samples)
{
	struct work *work = ctx;

	kp_worker_tell_samples(work->desk, samples);
}

static void writing(void *ctx)
{
	struct work *work = ctx;

	kp_worker_tell_state(work->desk, KP_SERVED_WRITING);
}

static void wrote(void *ctx, const char *path)
{
	struct work *work = ctx;

	kp_worker_tell_file(work->desk, path);
}

static void failed(void *ctx, const char *text)
{
	struct work *work = ctx;

	kp_worker_tell_error(work->desk, text);
}

static int sample(const struct kp_options *options, const struct glue *glue,
		  struct kp_worker_desk *desk)
{
	char raw[PATH_MAX + 16];
	struct work work = { .desk = desk };
	struct kp_sample_watch watch = { .progress = progress,
					 .kept = kept,
					 .writing = writing,
					 .wrote = wrote,
					 .failed = failed,
					 .ctx = &work };
	char base[PATH_MAX], name[80];
	struct kp_options o = *options;

	snprintf(name, sizeof(name), "%s%s", o.pid ? "" : "all-", desk->served->comm);
	if (!*kp_result_name(glue->dir, name, o.pid, time(NULL), base,
			     sizeof(base) - sizeof(".folded"))) {
		kp_worker_tell_error(desk, "no name for the results is left");
		return KP_EXIT_ERROR;
	}
	strcat(base, ".folded");
	o.output = base;
	o.quiet |= glue->quiet;
	if (!o.no_raw)
		work.raw_path = kp_output_path(&o, ".kitprof", raw, sizeof(raw));
	return kp_sample(&o, "kitprofd", NULL, &watch);
}

/*
 * Whom the session is about. kitprof is the server and what it forks, unless that is a namespace's
 * first process, which everyone's orphans become children of.
 */
static int take_census(const struct kp_request *request, struct kp_census *ret, struct kp_err *err)
{
	pid_t server = getppid() == 1 ? 0 : getppid();
	struct kp_whom whom;
	int r = kp_whom_resolve(request->user, request->everyone, geteuid(), &whom, err);

	return r < 0 ? r : kp_census_init(ret, whom.everyone, whom.uid, server, err);
}

static int work(void *ctx, const struct kp_request *request, struct kp_worker_desk *desk)
{
	struct kp_options options;
	struct kp_census census;
	struct kp_err err;
	int status = KP_EXIT_ERROR;
	int r = parse(request, &options, &err);

	if (r == 0 && request->all) {
		r = take_census(request, &census, &err);
		options.census = &census;
	}
	if (r < 0)
		kp_worker_tell_error(desk, err.text);
	else
		status = sample(&options, ctx, desk);
	kp_worker_tell_state(desk, status == KP_EXIT_OK || status == KP_EXIT_NOTHING
					   ? KP_SERVED_ENDED
					   : KP_SERVED_FAILED);
	return status;
}

int kp_serve(const struct kp_options *options)
{
	char path[PATH_MAX];
	struct glue glue = { .quiet = options->quiet };
	struct kp_server_options server = { .socket_path = options->socket,
					    .dir = glue.dir,
					    .check = check,
					    .work = work,
					    .say = say,
					    .ctx = &glue };
	struct kp_err err;
	int r = kp_serve_directory(options, glue.dir, &err);

	if (r == 0 && !options->socket) {
		r = kp_socket_default_path(true, path, sizeof(path), &err);
		server.socket_path = path;
	}
	if (r == 0)
		r = kp_server_run(&server, &err);
	if (r < 0)
		kp_cmd_say("kitprofd", err.text);
	return r < 0 ? KP_EXIT_ERROR : KP_EXIT_OK;
}
