/* A session and its results: sample.h. */
#include "daemon/cmd/sample.h"

#include "daemon/attach/inject.h"
#include "daemon/cmd/output.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct speaker {
	const char *program;
	bool quiet;
};

static void say(void *ctx, const char *line)
{
	const struct speaker *speaker = ctx;

	if (!speaker->quiet)
		kp_cmd_say(speaker->program, line);
}

static struct kp_session_options session_options(const struct kp_options *o, char *const *argv,
						 const char *raw_path, struct speaker *speaker)
{
	return (struct kp_session_options){
		.pid = o->pid,
		.argv = argv,
		.rate_mhz = o->rate_mhz,
		.depth = o->depth,
		.cap = o->cap,
		.duration_ns = o->duration_ns,
		.signal = o->signal,
		.clock = o->clock,
		.follow = !o->no_follow,
		.raw_path = raw_path,
		.say = say,
		.ctx = speaker,
	};
}

static int exit_of_failure(int r, bool is_run)
{
	if (r == KP_LAUNCH_NOT_FOUND)
		return KP_EXIT_NOT_FOUND;
	if (r == KP_LAUNCH_NOT_EXECUTABLE)
		return KP_EXIT_NOT_EXECUTABLE;
	return is_run ? KP_EXIT_RUN_FAILED : KP_EXIT_ERROR;
}

static int exit_of_program(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int kp_sample(const struct kp_options *options, const char *program, char *const *argv)
{
	struct speaker speaker = { program, options->quiet };
	struct kp_session_result result;
	struct kp_session_options session;
	char raw_path[4096];
	const char *raw = options->no_raw
				  ? NULL
				  : kp_output_path(options, ".kitprof", raw_path, sizeof(raw_path));
	uint64_t kept = 0;
	struct kp_err err;
	int r, wait_status;

	session = session_options(options, argv, raw, &speaker);
	r = kp_session_run(&session, &result, &err);
	if (r != 0) {
		kp_cmd_say(program, err.text);
		return exit_of_failure(r, argv != NULL);
	}
	signal(SIGPIPE, SIG_IGN); /* a reader of stdout that goes away is an ordinary error */
	r = kp_output_write(options, program, result.raw, result.raw_size, raw ? raw : "raw profile", raw,
			    result.pins, &kept, &err);
	if (r < 0)
		kp_cmd_say(program, err.text);
	wait_status = result.child ? kp_session_wait_child(result.child) : result.exit_status;
	kp_session_result_deinit(&result);
	if (argv) {
		int status = exit_of_program(wait_status);

		return r < 0 && status == 0 ? KP_EXIT_RUN_FAILED : status;
	}
	if (r < 0)
		return KP_EXIT_ERROR;
	return kept ? KP_EXIT_OK : KP_EXIT_NOTHING;
}
