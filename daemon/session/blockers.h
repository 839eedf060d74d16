/*
 * Private to session/: finding the threads of an attachment that block the sampling signal. Session
 * loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_outsiders;

/* A thread that blocks the signal, or is suspected of it. */
struct kp_blocker {
	pid_t tid;
	bool proven;
	bool released; /* its own clocks are stopped */
	uint64_t since_ns;
	uint64_t cpu_ns; /* CPU time when it came under suspicion */
	uint64_t sampled_ns; /* and what of it was in samples */
	uint32_t free; /* looks in a row that found it not blocking */
};

struct kp_blockers {
	struct kp_blocker *blocker;
	size_t count, room;
	size_t next_scan; /* of the threads, to be asked whether it blocks */
	size_t next_check; /* of the blockers */
	uint64_t checked_ns, scanned_ns; /* when they were last */
	uint64_t unexplained_ns; /* CPU time in no sample that is put up with */
	uint64_t patience_ns; /* and so much more, until threads are asked */
};

void kp_blockers_deinit(struct kp_blockers *b);

/* Looks for threads that block the signal, and whether those that were found still do. */
int kp_blockers_turn(struct kp_blockers *b, struct kp_outsiders *o, uint64_t now,
		     struct kp_err *err);

/* The thread has ended. */
void kp_blockers_forget(struct kp_blockers *b, pid_t tid);
