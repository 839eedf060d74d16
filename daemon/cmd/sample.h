/* Private to cmd/: a session and its results, as all that sample have them in common. */
#pragma once

#include "daemon/cmd/cmd.h"
#include "daemon/session/session.h"

/* For somebody who looks on; each may be NULL. */
struct kp_sample_watch {
	/* When sampling has begun, and while it goes on. */
	void (*progress)(void *ctx, const struct kp_session_progress *progress);
	void (*kept)(void *ctx, uint64_t samples); /* the final number */
	void (*writing)(void *ctx); /* the window is over */
	void (*wrote)(void *ctx, const char *path);
	void (*failed)(void *ctx, const char *text); /* besides being said */
	void *ctx;
};

/*
 * One session as the options say, then the reports. argv: the program to run, NULL to attach to
 * options->pid. watch may be NULL. Errors are said. Returns an exit status: of the program (run),
 * or one of ours.
 */
int kp_sample(const struct kp_options *options, const char *program, char *const *argv,
	      const struct kp_sample_watch *watch);

/* The same in two steps; attaching only. */
struct kp_sampled {
	struct kp_session_result result;
	const char *raw_path; /* NULL: in memory; else raw_room */
	char raw_room[4096];
};

/* As kp_session_run(). sampled stays where it is until it is deinited. */
int kp_sample_window(const struct kp_options *options, const char *program, char *const *argv,
		     const struct kp_sample_watch *watch, struct kp_sampled *sampled,
		     struct kp_err *err);
int kp_sample_write(const struct kp_options *options, const char *program,
		    const struct kp_sample_watch *watch, const struct kp_sampled *sampled,
		    uint64_t *ret_kept, struct kp_err *err);
