/*
 * Private to session/: what the kernel says of the threads of one process, as TALLY records: how long
 * each ran in the window, and how much of that before a clock ran for it. Session loop.
 *
 * A thread's part of the window begins with it, with the session, or with the program that its
 * process executes. How long it ran is known from its end on, where task events are allowed; before
 * that, and without them, from schedstat, which is late by up to a tick while the thread runs.
 */
#pragma once

#include "common/err.h"
#include "daemon/watch/task_events.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What all tallies of a session have in common. */
struct kp_tally_book {
	struct kp_raw_writer *writer;
	struct kp_task_events *events; /* NULL: not allowed here */
	struct kp_raw_end *sums; /* threads_seen, missed, missed_cpu_ns are counted */
};

/* CPU times are those since the thread's birth. */
struct kp_tally_thread {
	pid_t tid;
	uint64_t start_ns; /* when its part of the window began */
	uint64_t cpu_ns; /* the latest that is known */
	uint64_t base_ns; /* when it was added to the task events */
	uint64_t armed_ns; /* when its first clock ran, if it is known so */
	uint64_t covered_ns; /* since its first clock runs, if it is known so */
	uint64_t delay_start_ns, delay_ns; /* waiting for a CPU */
	uint64_t since_ns; /* CLOCK_MONOTONIC: when its part began */
	uint64_t early_until_ns; /* CLOCK_MONOTONIC: until then early samples of it count */
	uint64_t gone_ns; /* CLOCK_MONOTONIC: when it was seen to be gone; 0: it is there */
	uint32_t flags; /* set of enum kp_raw_tally_flag */
	bool clocked; /* a clock ran for it */
	bool final; /* cpu_ns is that of its whole life */
};

struct kp_tally {
	const struct kp_tally_book *book;
	pid_t pid;
	bool born; /* the process was born in the window: what is met in it was, too */
	struct kp_tally_thread *thread;
	size_t count, room;
	uint64_t put_ns; /* sum of cpu_ns of what has been written */
};

void kp_tally_init(struct kp_tally *tally, const struct kp_tally_book *book, pid_t pid, bool born);
void kp_tally_deinit(struct kp_tally *tally);

/*
 * A thread is there. was_there: it may have been before, and what it used until now is not the
 * window's, unless the process was born in it. No effect on one that is known.
 */
int kp_tally_meet(struct kp_tally *tally, pid_t tid, bool was_there, struct kp_err *err);

/* The entry of a thread that is not gone, or NULL. Valid until the next kp_tally_meet() or _put. */
struct kp_tally_thread *kp_tally_find(const struct kp_tally *tally, pid_t tid);

/*
 * Early samples of the thread count until it has a clock of its own; or no longer. since_birth: there
 * is no moment of its life that they are not taken of.
 */
void kp_tally_begin_early(struct kp_tally *tally, pid_t tid, bool since_birth);
void kp_tally_end_early(struct kp_tally *tally, pid_t tid);
/* Whether a thread, which may not be known, has early samples instead of a clock. */
bool kp_tally_is_early(const struct kp_tally *tally, pid_t tid);

/* The entry of a thread of which not all is known yet, gone or not; or NULL. */
struct kp_tally_thread *kp_tally_find_running(const struct kp_tally *tally, pid_t tid);

/* A first clock runs for it from now on, if none has yet. */
void kp_tally_clocked_now(struct kp_tally *tally, pid_t tid);

/* Brings what schedstat says up to date. */
void kp_tally_look(struct kp_tally *tally);

/* It has ended. Its record is written as soon as it is known how long it ran. */
void kp_tally_gone(struct kp_tally *tally, pid_t tid);
void kp_tally_gone_all(struct kp_tally *tally);

/* A KP_TASK_RAN of the process. False: the thread is not known. */
bool kp_tally_ran(struct kp_tally *tally, const struct kp_task_event *event);

/* Writes those that are gone; of one whose time is not known it is waited for a while. */
int kp_tally_put_gone(struct kp_tally *tally, struct kp_err *err);

/* Whether the record of one that is gone is still to be written. */
bool kp_tally_is_waiting(const struct kp_tally *tally);

/* Writes all, as the process has ended or the window does. */
int kp_tally_put_all(struct kp_tally *tally, bool present, struct kp_err *err);

/*
 * The process executes another program since exec_ns (CLOCK_MONOTONIC; 0: not known): writes all, and
 * begins with the thread that goes on.
 */
int kp_tally_exec(struct kp_tally *tally, uint64_t exec_ns, struct kp_err *err);

/* CPU time in the window of all its threads, ended ones included, as far as is known. */
uint64_t kp_tally_cpu_ns(const struct kp_tally *tally);

/* Of a thread that was never met: all its time was missed. */
int kp_tally_put_stranger(const struct kp_tally_book *book, pid_t pid, pid_t tid, uint64_t cpu_ns,
			  struct kp_err *err);
