/*
 * What kitprof and kitprofd say to each other: docs/control.md. Bytes from a socket are not
 * trusted: a line that is no message is -KP_EBADDATA with the reason, whatever it holds. Fields
 * that are not known are ignored.
 */
#pragma once

#include "common/err.h"
#include "proto/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum kp_request_command { KP_REQUEST_ON, KP_REQUEST_OFF, KP_REQUEST_STATUS };

struct kp_request {
	enum kp_request_command command;
	pid_t pid; /* on, off: the process; 0: see all and session */
	char **options; /* words of the command line, NULL-terminated; owned; NULL: none */
	bool all; /* on, off: all processes that kitprofd may profile, instead of one */
	bool everyone; /* on, all: of all users */
	char *user; /* on, all: of this one, a name or number; owned; NULL: not said */
	uint64_t session; /* off: the one with this id; 0: by pid or all */
};

enum kp_served_state {
	KP_SERVED_STARTING,
	KP_SERVED_SAMPLING,
	KP_SERVED_WRITING, /* the window is over, results are being written */
	KP_SERVED_ENDED, /* results are written */
	KP_SERVED_FAILED, /* see error; there may be files all the same */
};

/* A session as it is told. Plain data: a worker keeps its own in memory shared with the server. */
struct kp_served {
	pid_t pid; /* 0: all */
	uint64_t id; /* counts up from 1 */
	enum kp_served_state state;
	uint64_t since_unix_s;
	uint64_t samples;
	uint64_t processes; /* that are sampled; at the end: that were then */
	uint64_t file_count;
	char comm[64]; /* all: the user, or "everyone" */
	char options[256];
	char error[512]; /* "" if there is none */
	char note[768]; /* all: what is sampled and what was left out, when it began; else "" */
	char files[KP_CONTROL_FILES_MAX][128]; /* names in the server's directory */
};

struct kp_answer {
	char error[512]; /* "": the request was granted */
	char dir[4096]; /* where the server puts files */
	struct kp_served *sessions; /* on, off: the one that it is about; owned */
	size_t session_count;
};

/* len without the newline. *ret is to be deinited if 0 is returned. */
int kp_request_decode(const char *line, size_t len, struct kp_request *ret, struct kp_err *err);
void kp_request_deinit(struct kp_request *request);

int kp_answer_decode(const char *line, size_t len, struct kp_answer *ret, struct kp_err *err);
void kp_answer_deinit(struct kp_answer *answer);

/* *ret: a line with its newline and a NUL, to be freed. */
int kp_request_encode(const struct kp_request *request, char **ret, struct kp_err *err);
int kp_answer_encode(const struct kp_answer *answer, char **ret, struct kp_err *err);

/* "sampling" and so on. */
const char *kp_served_state_name(enum kp_served_state state);
