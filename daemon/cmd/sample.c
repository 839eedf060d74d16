/* A session and its results: sample.h. */
#include "daemon/cmd/sample.h"

#include "daemon/attach/inject.h"
#include "daemon/cmd/output.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct kp_sample_watch nobody;

struct speaker {
	const char *program;
	bool quiet;
	const struct kp_sample_watch *watch;
};

static void say(void *ctx, const char *line)
{
	const struct speaker *speaker = ctx;

	/* What was left in a target, or lost, is said in any case. */
	if (!speaker->quiet || strncmp(line, "warning:", strlen("warning:")) == 0)
		kp_cmd_say(speaker->program, line);
}

static void progress(void *ctx, const struct kp_session_progress *now)
{
	const struct speaker *speaker = ctx;

	speaker->watch->progress(speaker->watch->ctx, now);
}

int kp_sample_window(const struct kp_options *options, const char *program, char *const *argv,
		     const struct kp_sample_watch *watch, struct kp_sampled *sampled,
		     struct kp_err *err)
{
	struct speaker speaker = { program, options->quiet, watch ? watch : &nobody };
	struct kp_session_options session = {
		.pid = options->pid,
		.all = options->census,
		.argv = argv,
		.rate_mhz = options->rate_mhz,
		.depth = options->depth,
		.unwind = options->unwind,
		.slice_bytes = options->slice_bytes,
		.cap = options->cap,
		.duration_ns = options->duration_ns,
		.signal = options->signal,
		.clock = options->clock,
		.no_stops = options->no_ptrace_fallback,
		.follow = !options->no_follow,
		.verbose = options->verbose,
		.say = say,
		.progress = speaker.watch->progress ? progress : NULL,
		.ctx = &speaker,
	};

	if (!options->no_raw)
		session.raw_path = kp_output_path(options, ".kitprof", sampled->raw_room,
						  sizeof(sampled->raw_room));
	sampled->raw_path = session.raw_path;
	return kp_session_run(&session, &sampled->result, err);
}

int kp_sample_write(const struct kp_options *options, const char *program,
		    const struct kp_sample_watch *watch, const struct kp_sampled *sampled,
		    uint64_t *ret_kept, struct kp_err *err)
{
	struct kp_output_source source = {
		.raw = sampled->result.raw,
		.size = sampled->result.raw_size,
		.name = sampled->raw_path ? sampled->raw_path : "raw profile",
		.path = sampled->raw_path,
		.pins = sampled->result.pins,
		.wrote = watch ? watch->wrote : NULL,
		.ctx = watch ? watch->ctx : NULL,
	};

	signal(SIGPIPE, SIG_IGN); /* a reader of stdout that goes away is an ordinary error */
	return kp_output_write(options, program, &source, ret_kept, err);
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

static void fail(const char *program, const struct kp_sample_watch *watch, const struct kp_err *err)
{
	kp_cmd_say(program, err->text);
	if (watch->failed)
		watch->failed(watch->ctx, err->text);
}

int kp_sample(const struct kp_options *options, const char *program, char *const *argv,
	      const struct kp_sample_watch *watch)
{
	struct kp_sampled sampled;
	uint64_t kept = 0;
	struct kp_err err;
	int r, wait_status;

	watch = watch ? watch : &nobody;
	r = kp_sample_window(options, program, argv, watch, &sampled, &err);
	if (r != 0) {
		fail(program, watch, &err);
		return exit_of_failure(r, argv != NULL);
	}
	if (watch->writing)
		watch->writing(watch->ctx);
	r = kp_sample_write(options, program, watch, &sampled, &kept, &err);
	if (r < 0)
		fail(program, watch, &err);
	else if (watch->kept)
		watch->kept(watch->ctx, kept);
	wait_status = sampled.result.child ? kp_session_wait_child(sampled.result.child)
					   : sampled.result.exit_status;
	kp_session_result_deinit(&sampled.result);
	if (argv) {
		int status = exit_of_program(wait_status);

		return r < 0 && status == 0 ? KP_EXIT_RUN_FAILED : status;
	}
	if (r < 0)
		return KP_EXIT_ERROR;
	return kept ? KP_EXIT_OK : KP_EXIT_NOTHING;
}
