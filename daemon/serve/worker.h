/*
 * A worker: a fork of the server that runs one session to its end, results included. What it has to
 * tell is in memory that both share; a byte in a pipe says that there is something new, the pipe's
 * end that the worker is gone.
 *
 * SIGTERM ends its session as any other end of a window. It comes from the server, or from the
 * kernel when the server has died: what was sampled is written in either case.
 */
#pragma once

#include "common/err.h"
#include "daemon/serve/message.h"

#include <stdbool.h>

/* Private to the worker's process; the functions below are for the work. */
struct kp_worker_desk {
	struct kp_served *served; /* shared with the server */
	int notice_fd;
};

/*
 * The work, in the worker's process: single-threaded, signals of the session blocked, stdin,
 * stdout and stderr the server's and no other descriptor. Its result is the worker's exit status.
 */
typedef int (*kp_work_fn)(void *ctx, const struct kp_request *request, struct kp_worker_desk *desk);

void kp_worker_tell_state(struct kp_worker_desk *desk, enum kp_served_state state);
void kp_worker_tell_samples(struct kp_worker_desk *desk, uint64_t samples);
void kp_worker_tell_processes(struct kp_worker_desk *desk, uint64_t processes);
void kp_worker_tell_note(struct kp_worker_desk *desk, const char *text); /* while it starts */
void kp_worker_tell_file(struct kp_worker_desk *desk, const char *path); /* its last part is told */
void kp_worker_tell_error(struct kp_worker_desk *desk, const char *text);

struct kp_worker {
	pid_t pid;
	int notice_fd;
	struct kp_served *served; /* as far as the worker has come */
};

/* first: what is known already. The signals that end a session are to be blocked. */
int kp_worker_start(struct kp_worker *ret, const struct kp_served *first, kp_work_fn work,
		    void *ctx, const struct kp_request *request, struct kp_err *err);

/* Reads what notice_fd has. false: the worker is gone, and is to be buried. */
bool kp_worker_is_there(struct kp_worker *worker);

/* Waits for a worker that is gone. *ret: its last words, or that it was killed. */
void kp_worker_bury(struct kp_worker *worker, struct kp_served *ret);
