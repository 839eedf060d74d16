/*
 * Private to session/: the threads of an attachment that are sampled from outside: those that block
 * the sampling signal, and with --clock wall all while they wait. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/clock/outside.h"
#include "daemon/session/blockers.h"
#include "daemon/watch/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_attachment;
struct kp_lookout;

struct kp_outsiders {
	struct kp_lookout *lookout; /* NULL: there is none */
	struct kp_attachment *attachment;
	uint64_t serial; /* different for all of a session */
	struct kp_clock *stops, *waits; /* either may be NULL */
	struct kp_blockers blockers;
	uint64_t table_changes; /* of the store of unwind tables, when stacks were learned */
	bool listed; /* the stop clock is in the raw profile */
};

/* After the attachment has its other clocks. */
int kp_outsiders_init(struct kp_outsiders *o, struct kp_attachment *attachment, struct kp_err *err);
/* The window is over: what was waited for last becomes samples, and nothing more is looked at. */
void kp_outsiders_end(struct kp_outsiders *o);
void kp_outsiders_deinit(struct kp_outsiders *o);

/* A thread came, or went. */
void kp_outsiders_arm(struct kp_outsiders *o, const struct kp_thread *thread);
void kp_outsiders_forget(struct kp_outsiders *o, pid_t tid);

/* Regular upkeep. */
int kp_outsiders_turn(struct kp_outsiders *o, uint64_t now, struct kp_err *err);

/*
 * A thread is sampled in stops, its own clocks are stopped; and the other way round. Where stops are
 * not allowed it is not sampled in between.
 */
int kp_outsiders_take_over(struct kp_outsiders *o, struct kp_thread *thread, struct kp_err *err);
void kp_outsiders_give_back(struct kp_outsiders *o, struct kp_thread *thread);

/* CPU time that a sample of the attachment's own clocks stands for. */
uint64_t kp_outsiders_cpu_period_ns(const struct kp_outsiders *o);

/* Weight unit of a source's samples, and the thread that one of them is of; 0: not theirs. */
uint64_t kp_outsiders_period(const struct kp_outsiders *o, uint8_t source);
pid_t kp_outsiders_owner(const struct kp_outsiders *o, uint8_t source, uint32_t origin);

/* The answer to kp_lookout_ask(); sight NULL: nothing was seen. */
void kp_outsiders_seen(struct kp_outsiders *o, struct kp_clock *clock, pid_t tid,
		       const struct kp_sight *sight);
