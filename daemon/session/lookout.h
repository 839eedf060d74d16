/*
 * Private to session/: sampling from outside, for the whole session: the onlooker process, what its
 * looks may cost the targets, and the walk of the stacks that it brings. Session loop.
 *
 * A stop suspends a thread. So there are at most KP_LOOKOUT_STOPS of them in a second, over all
 * threads, and none after KP_LOOKOUT_TIME_NS from the first one on.
 */
#pragma once

#include "common/err.h"
#include "daemon/clock/outside.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KP_LOOKOUT_STOPS 1000u /* a second */
#define KP_LOOKOUT_READS 1000u /* looks at /proc a second for threads that wait */
#define KP_LOOKOUT_TIME_NS UINT64_C(60000000000)

struct kp_outsiders;

/* What is known in the end. */
struct kp_lookout_sums {
	uint64_t stops, stops_ns; /* threads stopped, and for how long in all */
	uint64_t refused; /* looks that were not possible: a debugger, no permission, too late */
	uint64_t cpu_ns; /* of the onlooker itself */
	uint32_t clamped; /* set of enum kp_raw_clamped */
};

/* Takes a line about what goes on. */
typedef void (*kp_lookout_say_fn)(void *ctx, const char *line);

struct kp_lookout;

/* stops: threads may be stopped to sample them. say is kept. */
int kp_lookout_create(bool stops, kp_lookout_say_fn say, void *ctx, struct kp_lookout **ret,
		      struct kp_err *err);
void kp_lookout_destroy(struct kp_lookout *lookout);

bool kp_lookout_may_stop(const struct kp_lookout *lookout);
__attribute__((format(printf, 2, 3))) void kp_lookout_say(struct kp_lookout *lookout,
							  const char *fmt, ...);

/* Notes a limit; it is said the first time. */
void kp_lookout_clamp(struct kp_lookout *lookout, enum kp_raw_clamped what, const char *text);

/* Whose clocks are served from here on, until it leaves. */
int kp_lookout_join(struct kp_lookout *lookout, struct kp_outsiders *outsiders, struct kp_err *err);
void kp_lookout_leave(struct kp_lookout *lookout, struct kp_outsiders *outsiders);

/* For the clocks of outsiders: struct kp_outside_ops, ask and may_read. */
enum kp_ask kp_lookout_ask(struct kp_lookout *lookout, struct kp_outsiders *outsiders,
			   struct kp_clock *clock, pid_t tid);
/* The same, read: *ret is valid until the next call of anything here. */
bool kp_lookout_read(struct kp_lookout *lookout, struct kp_outsiders *outsiders, pid_t tid,
		     const struct kp_thread_where *where, struct kp_sight *ret);
bool kp_lookout_may_read(struct kp_lookout *lookout);

/* To be polled for input beside the session's others; -1: nothing. */
int kp_lookout_fd(const struct kp_lookout *lookout);
/* When there is something to do, CLOCK_MONOTONIC; UINT64_MAX: nothing. */
uint64_t kp_lookout_due_ns(const struct kp_lookout *lookout);
/* Has those looked at whose turn it is, and hands out what was seen. */
void kp_lookout_serve(struct kp_lookout *lookout);

void kp_lookout_sum(struct kp_lookout *lookout, struct kp_lookout_sums *ret);
