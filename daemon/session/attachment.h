/*
 * The agent in one program image of one process: clocks, threads, modules, and the shared memory
 * that its samples come through. An exec ends it; the next image gets another one. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/inject.h"
#include "daemon/clock/choose.h"
#include "daemon/clock/clock.h"
#include "daemon/session/agent_memory.h"
#include "daemon/session/outsiders.h"
#include "daemon/session/tally.h"
#include "daemon/watch/modules.h"
#include "daemon/watch/compiled.h"
#include "daemon/watch/task_events.h"
#include "daemon/watch/threads.h"

#include <stdbool.h>
#include <stdint.h>

/* What all attachments of a session have in common. */
struct kp_attachment_plan {
	uint64_t rate_mhz;
	uint32_t depth;
	enum kp_unwind_mode unwind;
	uint32_t slice_bytes; /* of the stack in a slice; KP_UNWIND_SLICE only */
	int signal; /* 0: choose for each program */
	struct kp_clock_plan clocks;
	struct kp_raw_writer *writer;
	struct kp_pins *pins;
	struct kp_store *store; /* of unwind tables; NULL: none are wanted */
	struct kp_task_events *events; /* NULL: not allowed here; /proc is looked at instead */
	struct kp_lookout *lookout; /* NULL: nothing is sampled from outside */
	uint64_t start_ns; /* CLOCK_MONOTONIC, of the window; 0: it has not begun */
	uint32_t blockers_said;
	uint64_t left; /* samples that may still be written (--cap) */
	uint64_t early_period_ns; /* of samples by the kernel of what is born; 0: none are taken */
	uint32_t cells_max; /* of a ring; 0: no other limit than the usual one */
};

struct kp_attachment {
	struct kp_attachment_plan *plan;
	struct kp_target target;
	struct kp_agent_memory *memory;
	struct kp_clock *timer;
	struct kp_clock *event; /* NULL: timers only */
	struct kp_clock
		*nudge; /* timers only: events that run a new thread's handler once, or NULL */
	struct kp_outsiders outsiders; /* sampled without a signal */
	struct kp_threads threads;
	struct kp_tally *tally; /* of the process: it outlives a program */
	struct kp_modules modules;
	struct kp_compiled compiled;
	bool look_at_threads, look_at_modules,
		look_at_names; /* something is said to have changed */
	bool flush; /* signals of ours are pending that would stay so */
	uint64_t attached_ns; /* CLOCK_MONOTONIC */
	uint64_t threads_ns, scan_ns, names_ns; /* when last looked at */
	uint64_t scan_cost_ns; /* how long the last regular scan took */
	uint64_t rescan_ns; /* until modules are looked at again for an unknown caller */
	uint64_t stopped_ns; /* by attaching and arming */
	uint64_t samples; /* that the target's handler took */
	uint64_t explained_ns; /* CPU time in samples */
	bool unwatched; /* there are threads whose births are not told by events */
	bool live; /* the agent is in the target */
};

/* Of the area for unwind tables that a target is asked for; it may have room for less. */
uint64_t kp_attachment_tables_bytes(const struct kp_attachment_plan *plan);

/* Into a process that runs. target: from kp_target_check(). tally: of its threads. */
int kp_attachment_open(struct kp_attachment *a, struct kp_attachment_plan *plan,
		       struct kp_tally *tally, const struct kp_target *target, struct kp_err *err);

/* Into a program that is started: see kp_launch(), also for the results > 0. */
int kp_attachment_launch(struct kp_attachment *a, struct kp_attachment_plan *plan,
			 struct kp_tally *tally, char *const argv[],
			 const struct kp_launch_hooks *hooks, struct kp_err *err);

/* For a child that has been forked and has the agent from its parent already: only clocks. */
int kp_attachment_fork(struct kp_attachment *a, const struct kp_attachment *parent,
		       struct kp_tally *tally, const struct kp_target *target, struct kp_err *err);

/* The thread of this attachment that a record's origin means, or 0. */
pid_t kp_attachment_owner(const struct kp_attachment *a, const struct kp_ring_record *record);

/* Fills the rest of a sample in; writes records that it refers to first. */
int kp_attachment_complete(struct kp_attachment *a, const struct kp_ring_record *record, pid_t tid,
			   struct kp_raw_sample *sample, struct kp_err *err);

/* For outsiders: a clock's record, and the time since the start of the window. */
int kp_attachment_put_clock(struct kp_attachment *a, const struct kp_clock *clock,
			    struct kp_err *err);
uint64_t kp_attachment_elapsed_ns(const struct kp_attachment *a);

/* For outsiders: the clocks of a thread that is sampled otherwise are stopped, and started again. */
void kp_attachment_release(struct kp_attachment *a, const struct kp_thread *thread);
void kp_attachment_take_back(struct kp_attachment *a, const struct kp_thread *thread);

/* The window is over: nothing is sampled any more. The agent stays until it is closed. */
void kp_attachment_end(struct kp_attachment *a, uint64_t elapsed_ns);

/*
 * One turn: threads, names and modules are looked at as often as is due, clocks served, samples
 * drained. elapsed_ns: since the start of the window.
 */
int kp_attachment_turn(struct kp_attachment *a, uint64_t elapsed_ns, struct kp_err *err);

/* A thread of the process has been born, as the kernel says: it gets its clocks at once. */
int kp_attachment_born(struct kp_attachment *a, pid_t tid, struct kp_err *err);

/* Whether the next turn should come within half a millisecond. */
bool kp_attachment_is_in_a_hurry(const struct kp_attachment *a);

/*
 * Stops the clocks, takes the agent out of the process (if it is there), drains the rest.
 * *ret_stopped_ns: how long a thread stood still for it. Even on failure the rest was drained.
 */
int kp_attachment_close(struct kp_attachment *a, uint64_t elapsed_ns, uint64_t *ret_stopped_ns,
			struct kp_err *err);

/* Of one that is closed, or was never opened. The memory goes with its last user. */
void kp_attachment_deinit(struct kp_attachment *a);
