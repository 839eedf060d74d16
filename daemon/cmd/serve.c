/*
 * kitprofd without --pid: what the server of daemon/serve/ needs to know of options, targets and
 * results. Server and, from work() on, its workers.
 */
#include "daemon/cmd/serve.h"

#include "daemon/cmd/control.h"
#include "daemon/cmd/output.h"
#include "daemon/cmd/sample.h"
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
	ret->words = ret->rest = NULL; /* they go with argv */
	ret->pid = request->pid;
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
	struct kp_proc_status status;
	size_t used = 0;
	int r = parse(request, &options, err);

	(void)ctx;
	if (r == 0)
		r = kp_proc_status(request->pid, request->pid, &status, err);
	if (r < 0)
		return r;
	snprintf(ret->comm, sizeof(ret->comm), "%s", status.name);
	for (char **word = request->options; word && *word && used < sizeof(ret->options); word++)
		used += (size_t)snprintf(ret->options + used, sizeof(ret->options) - used, "%s%s",
					 used ? " " : "", *word);
	return 0;
}

/* ---- in the worker ---- */

struct work {
	struct kp_worker_desk *desk;
	const char *raw_path; /* NULL: none */
	bool begun;
};

static void progress(void *ctx, uint64_t kept)
{
	struct work *work = ctx;

	kp_worker_tell_samples(work->desk, kept);
	if (work->begun)
		return;
	work->begun = true;
	/* From now on there is something in it, whatever happens. */
	if (work->raw_path)
		kp_worker_tell_file(work->desk, work->raw_path);
	kp_worker_tell_state(work->desk, KP_SERVED_SAMPLING);
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
					 .writing = writing,
					 .wrote = wrote,
					 .failed = failed,
					 .ctx = &work };
	char base[PATH_MAX];
	struct kp_options o = *options;

	if (!*kp_result_name(glue->dir, desk->served->comm, o.pid, time(NULL), base,
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

static int work(void *ctx, const struct kp_request *request, struct kp_worker_desk *desk)
{
	struct kp_options options;
	struct kp_err err;
	int status = KP_EXIT_ERROR;

	if (parse(request, &options, &err) < 0)
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
