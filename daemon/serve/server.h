/*
 * The server: takes requests on the control socket and gives each session to a worker of its own.
 * One thread, which never waits for a client or a worker alone.
 */
#pragma once

#include "daemon/serve/worker.h"

struct kp_server_options {
	const char *socket_path;
	const char *dir; /* absolute: where workers put their files */

	/*
	 * Before a worker is made, in the server: whether the request makes sense. Fills in comm
	 * and options of *ret. < 0: it does not, with the reason.
	 */
	int (*check)(void *ctx, const struct kp_request *request, struct kp_served *ret,
		     struct kp_err *err);
	kp_work_fn work;
	/* A line about what goes on. */
	void (*say)(void *ctx, const char *line);
	void *ctx;
};

/*
 * Serves until SIGINT, SIGTERM or SIGHUP; then ends all sessions, waits until their results are
 * written, and returns 0. < 0: it could not begin.
 */
int kp_server_run(const struct kp_server_options *options, struct kp_err *err);
