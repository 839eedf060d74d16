/*
 * Files from debuginfod servers, by build id, fetched by elfutils' program debuginfod-find: it knows
 * DEBUGINFOD_URLS, the cache and the protocol. One child for each file, several at once, in the
 * background; this only starts them, listens and looks at what they bring. The network is touched
 * by these children and by nothing else of kitprof.
 *
 * What is fetched appears below a directory of its own, as DIR/.build-id/ab/cdef and cdef.debug, for
 * those who look for files by build id there; it is for them to compare it. Runs in the daemon.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/symbolizer.h"

#include <stdbool.h>
#include <stddef.h>

/* Nothing can be fetched; err says what is missing. */
#define KP_DEBUGINFOD_CANNOT 1

#define KP_DEBUGINFOD_ID_MAX 64 /* bytes of a build id; usual are 20 */

enum kp_debuginfod_state {
	KP_DEBUGINFOD_PENDING,
	KP_DEBUGINFOD_HAVE,
	KP_DEBUGINFOD_NONE,
};

struct kp_debuginfod_question {
	bool executable; /* the module itself; else its debug information */
	const char *id; /* hexadecimal, two digits to KP_DEBUGINFOD_ID_MAX bytes */
	const char *what; /* for messages */
};

struct kp_debuginfod;

/* options are borrowed. Nothing is touched yet. deadline_ns: CLOCK_MONOTONIC. */
int kp_debuginfod_create(const struct kp_symbolizer_fetch *options, uint64_t deadline_ns,
			 struct kp_debuginfod **ret, struct kp_err *err);

/* Ends what still runs, and removes the directory. */
void kp_debuginfod_destroy(struct kp_debuginfod *d);

/* Begins to fetch. What was asked for already is not asked for again: *ret is the same then. */
int kp_debuginfod_ask(struct kp_debuginfod *d, const struct kp_debuginfod_question *question,
		      size_t *ret, struct kp_err *err);

enum kp_debuginfod_state kp_debuginfod_state(const struct kp_debuginfod *d, size_t question);

/* What came for it was opened and is not what was asked for: says so. */
void kp_debuginfod_refuse(struct kp_debuginfod *d, size_t question);

/* Sees to those that run, without waiting: to be called now and then. */
void kp_debuginfod_look(struct kp_debuginfod *d);

/* Waits until one more is no longer pending, or none is. At the deadline all that are, are NONE. */
void kp_debuginfod_wait(struct kp_debuginfod *d);

/* Where what was fetched is; NULL as long as nothing was. Lives as long as d. */
const char *kp_debuginfod_dir(const struct kp_debuginfod *d);
