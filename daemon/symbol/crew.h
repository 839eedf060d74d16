/*
 * Several workers (name_worker.h) on the addresses of several modules: who looks up what, what becomes
 * of the work of one that died, and when there is no time left. Runs in the daemon, in one thread,
 * until all is done.
 *
 * A worker stays with a module as long as there is work in it, since opening one is dear; one that
 * has nothing to do takes half of what another one has before it. If a worker dies, the address
 * that it was at stays without a name, and each time more of those behind it, so that a damaged
 * part of a module is soon passed and a damaged module soon left alone. If it hangs, its module is
 * left alone at once.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/arena.h"
#include "daemon/symbol/frame.h"
#include "daemon/symbol/name_worker.h"

#include <stddef.h>
#include <stdint.h>

#define KP_CREW_MAX 8u
#define KP_CREW_TIMEOUT_MS 60000u /* for one address, and for opening a module */

struct kp_crew_job {
	uint32_t module;
	const uint64_t *offset; /* sorted, each once */
	struct kp_frames *frames; /* filled in, where there is an answer; else left alone */
	uint32_t count;
	/* what came of it: */
	uint32_t answered;
	uint32_t lost; /* because workers died of them */
	uint32_t late; /* because there was no time */
	const char *note; /* of the module, or NULL; in the arena */
	char why[96]; /* lost: what the workers died of */
};

struct kp_crew_options {
	struct kp_name_worker_work work; /* its room_bytes are the crew's */
	struct kp_arena *arena; /* for the answers */
	unsigned workers; /* at most; 0: as many as CPUs, KP_CREW_MAX at most */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	uint32_t timeout_ms; /* 0: KP_CREW_TIMEOUT_MS */
	/* Called from time to time; may be NULL. */
	void (*progress)(void *ctx, size_t jobs_done, uint64_t answered);
	void *progress_ctx;
};

/* < 0: out of memory, or no worker could be started; what is answered then is in the jobs. */
int kp_crew_run(const struct kp_crew_options *options, struct kp_crew_job *job, size_t count,
		struct kp_err *err);
