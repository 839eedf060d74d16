/*
 * Private to session/: how soon kitprof gets a CPU while a session runs. A late turn is a thread that
 * is armed late. Process-wide: one at a time.
 */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

struct kp_priority {
	int nice; /* kitprof was started with */
	struct rlimit limit; /* RLIMIT_RTTIME, likewise */
	bool raised, real_time;
};

/* Nicer to itself where that is allowed. */
void kp_priority_raise(struct kp_priority *priority);

/*
 * Real-time where that is allowed; children begin without it. Whoever uses the CPU for a fifth of a
 * second on end loses it for a second: see _renew(). Not before the program is started: it would
 * inherit that its timers have no slack.
 */
void kp_priority_raise_more(struct kp_priority *priority);

/* Once a turn: takes back what was lost. */
void kp_priority_renew(struct kp_priority *priority);

/* As it was before; also in a child, before it execs. */
void kp_priority_restore(const struct kp_priority *priority);
