/* The sessions of a server: those that run, each with its worker, and the last that have ended. */
#pragma once

#include "daemon/serve/worker.h"

struct kp_session_entry {
	uint64_t id; /* counts up from 1 */
	bool running;
	struct kp_worker worker; /* while it runs */
	struct kp_served last; /* afterwards */
};

/* In the order in which they began or, once they have, ended. Plain data; at most KP_CONTROL_SESSIONS_MAX run. */
struct kp_sessions {
	struct kp_session_entry *entry[KP_CONTROL_SESSIONS_MAX + KP_CONTROL_HISTORY_MAX];
	size_t count, running;
	uint64_t last_id;
};

/* A new entry, whose worker is to be filled in; NULL for want of room or memory. */
struct kp_session_entry *kp_sessions_add(struct kp_sessions *sessions);
/* Takes it out: its session did not come about. Its worker is gone or was never made. */
void kp_sessions_drop(struct kp_sessions *sessions, struct kp_session_entry *entry);
void kp_sessions_deinit(struct kp_sessions *sessions);

/*
 * The worker is gone: what it said last is kept, and the oldest of too many are forgotten. entry
 * stays.
 */
void kp_sessions_end(struct kp_sessions *sessions, struct kp_session_entry *entry);

struct kp_session_entry *kp_sessions_find_id(const struct kp_sessions *sessions, uint64_t id);
/* The one that runs on pid (0: on all), else the last one that has ended; NULL: none. */
struct kp_session_entry *kp_sessions_find_pid(const struct kp_sessions *sessions, pid_t pid);

/* A copy of the state of things. */
void kp_session_entry_read(const struct kp_session_entry *entry, struct kp_served *ret);
