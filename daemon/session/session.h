/*
 * One profiling session: a target or several, a window, a raw profile. Runs in a single-threaded process,
 * which waits in it until the window has ended.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/walk.h"
#include "daemon/clock/choose.h"
#include "daemon/linux/census.h"
#include "daemon/symbol/pin.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What there is to be told while the window is open. */
struct kp_session_progress {
	uint64_t kept; /* samples so far */
	uint64_t processes; /* that are sampled now */
	const char *note; /* all, when sampling has begun: what is sampled, what not; else NULL */
};

struct kp_session_options {
	pid_t pid; /* attach to it; 0: to all, or run argv */
	const struct kp_census *all; /* attach to what it wants, now and later; NULL: run argv */
	char *const *argv; /* NULL-terminated */
	uint64_t rate_mhz; /* KP_RATE_MIN_MHZ..KP_RATE_MAX_MHZ */
	uint32_t depth; /* 1..KP_DEPTH_MAX */
	enum kp_unwind_mode unwind;
	uint32_t slice_bytes; /* of the stack in a slice, a multiple of 8; KP_UNWIND_SLICE only */
	uint64_t cap; /* samples at most, at least 1 */
	uint64_t duration_ns; /* 0: until the target ends or a signal comes */
	int signal; /* for sampling; 0: choose */
	enum kp_clock_wish clock;
	bool no_stops; /* threads that block the signal are not sampled in short stops */
	bool follow; /* forks and execs of the target as well; all: what comes later */
	bool verbose; /* say more */
	const char *raw_path; /* NULL: the raw profile stays in memory */
	/* Takes a line about what goes on (no newline); may be NULL. */
	void (*say)(void *ctx, const char *line);
	/* When sampling has begun, and each turn. May be NULL. */
	void (*progress)(void *ctx, const struct kp_session_progress *progress);
	void *ctx;
};

struct kp_session_result {
	void *raw; /* the raw profile, whole */
	size_t raw_size;
	struct kp_pins *pins;
	enum kp_raw_end_why why; /* the window ended */
	pid_t child; /* run: the program, if it still runs (--cap or -d ended the window); else 0 */
	int exit_status; /* run: as wait(2) gives it, if child is 0 */
};

/*
 * Samples until the window ends: the target or all of them end, duration, cap, or SIGINT, SIGTERM or
 * SIGHUP to this process (attach; with run, those meant for the program are its own or are passed
 * on).
 *
 * < 0: nothing was sampled; nothing is left in the target. > 0: KP_LAUNCH_... of attach/inject.h.
 * 0: *ret is filled in, to be deinited. A problem that came later (disk full, the agent could not
 * be removed) is said through say() and does not lose what was gathered.
 */
int kp_session_run(const struct kp_session_options *options, struct kp_session_result *ret,
		   struct kp_err *err);
void kp_session_result_deinit(struct kp_session_result *result);

/* Waits for a program that still runs, passing signals on, and gives its wait status. */
int kp_session_wait_child(pid_t child);

/* Removes what a killed kitprof left in pid. *ret_found: whether there was anything. */
int kp_session_cleanup(pid_t pid, bool *ret_found, struct kp_err *err);
