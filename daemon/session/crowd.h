/*
 * Private to session/: the targets of a session that names none, `on --all`. They are found by
 * looks at /proc: at the start, and every second or so, for what is no child of a target. Session
 * loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/census.h"
#include "daemon/session/family.h"

#include <stdbool.h>
#include <sys/types.h>

/* once: only the processes that are there at the start, and those that they become by exec. */
int kp_crowd_create(const struct kp_census *census, bool once, struct kp_crowd **ret,
		    struct kp_err *err);
void kp_crowd_destroy(struct kp_crowd *crowd);

/*
 * Looks, if it is time, and attaches to some of what was found: for some milliseconds, so that what
 * is sampled already is not kept waiting.
 */
void kp_crowd_turn(struct kp_family *family);

/* All that the first look found has been tried. */
bool kp_crowd_is_settled(const struct kp_crowd *crowd);

/* Some of what was found has not been tried yet. */
bool kp_crowd_is_busy(const struct kp_crowd *crowd);

/* Whether a process that a target became or gave birth to belongs to it. */
bool kp_crowd_wants(const struct kp_crowd *crowd, pid_t pid, const struct kp_proc_status *status);

/* A reason, for the note. */
void kp_crowd_hear_refusal(struct kp_crowd *crowd, const struct kp_err *why);

/* "12 processes sampled, 3 left out (2 refuse: ...; 1 is kitprof)", as of now. */
const char *kp_crowd_note(struct kp_family *family);

/* After all are closed: removes the agent from what inherited it without being heard of. */
void kp_crowd_sweep(const struct kp_family *family);
