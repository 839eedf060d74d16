/*
 * Private to session/: the processes of a session, from the target down: forks, execs and ends are
 * followed. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/census.h"
#include "daemon/session/attachment.h"
#include "daemon/session/passed.h"
#include "daemon/session/tally.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_crowd;

/* What a refusal may have been for; when it changes, the process is asked again. */
struct kp_process_face {
	bool traced;
	uint64_t sig_caught;
	dev_t exe_dev;
	ino_t exe_inode;
};

struct kp_process {
	pid_t pid;
	struct kp_attachment attachment; /* live or not */
	struct kp_tally tally;
	char comm[64]; /* of the image that it is now */
	bool named; /* PROCESS and THREAD of that have been written */
	uint64_t tally_look_ns;
	uint64_t cpu_start_ns, cpu_ns; /* at the start of its part of the window, and now */
	uint64_t waited_start_ns; /* of children that it has waited for, at the start */
	uint64_t silent_cpu_ns, silent_samples; /* when samples came last */
	uint64_t action_check_ns, share_check_ns;
	uint32_t tries; /* to attach to the image that it is now */
	uint64_t try_again_ns; /* an image that could not be attached to yet; 0: no */
	pid_t parent; /* whose modules it has, as nobody has looked at its own; else 0 */
	struct kp_modules image; /* of a program without an agent, as the kernel tells of them */
	pid_t lender; /* whose memory it is in, after vfork(), until it execs; else 0 */
	bool look_for_children; /* some may have been forked before it was watched */
	bool refused; /* the program that it is now is not sampled */
	uint64_t refused_ns; /* CLOCK_MONOTONIC: since when that is known */
	bool dismissed; /* it is no part of the session any more */
	bool ended;
	uint64_t turn_ns, turn_cpu_ns; /* when it was last looked at as a whole */
	struct kp_process_face face; /* crowd, refused: when it was */
};

/* Takes a line about what goes on. */
typedef void (*kp_family_say_fn)(void *ctx, const char *line);

struct kp_family {
	struct kp_attachment_plan *plan;
	bool follow; /* children of the target too */
	struct kp_crowd *crowd; /* all are targets, those that come later too; else NULL */
	struct kp_process **process; /* [0] is the target, if there is no crowd */
	size_t count, room;
	uint64_t start_ticks; /* since boot, as start times of processes are */
	bool target_lost; /* the target took the signal for itself, or became what cannot be sampled */
	struct kp_raw_end sums; /* over what has ended */
	struct kp_tally_book book;
	struct kp_passed passed;
	bool early_listed; /* early samples: their clock is in the raw file */
	uint64_t early_time_ns; /* CLOCK_MONOTONIC, of the last TIME for them; 0: none yet */
	uint64_t cpu_of_ended_ns;
	bool lack_of_tables_said, full_tables_said;
	kp_family_say_fn say;
	void *ctx;
};

void kp_family_init(struct kp_family *family, struct kp_attachment_plan *plan, bool follow,
		    kp_family_say_fn say, void *ctx);

/* The target: attached to, or started (results as kp_attachment_launch()). */
int kp_family_attach(struct kp_family *family, pid_t pid, struct kp_err *err);
int kp_family_launch(struct kp_family *family, char *const argv[], void (*before_exec)(void *),
		     void *ctx, struct kp_err *err);

/*
 * All that the census wants: one after another, in turns, until kp_family_is_settled(). once: those
 * of the beginning only. What refuses is said and counted, and no error.
 */
int kp_family_attach_all(struct kp_family *family, const struct kp_census *census, bool once,
			 struct kp_err *err);
bool kp_family_is_settled(const struct kp_family *family);

/* A line about what became of all: how many are sampled, what was left out. */
const char *kp_family_note(struct kp_family *family);

/* Processes that are sampled now. */
size_t kp_family_live(const struct kp_family *family);

/* One turn over all processes. */
int kp_family_turn(struct kp_family *family, uint64_t elapsed_ns, struct kp_err *err);

/* Whether the next turn should come within a millisecond. */
bool kp_family_is_in_a_hurry(const struct kp_family *family);

/* Samples written and lost so far. */
void kp_family_count(const struct kp_family *family, struct kp_ring_counts *ret);

/* CPU time of all processes in the window so far. */
uint64_t kp_family_cpu_ns(const struct kp_family *family);

/* Takes the agent out of all of them. Problems are said. family->sums is complete then. */
void kp_family_close(struct kp_family *family, uint64_t elapsed_ns);

void kp_family_deinit(struct kp_family *family);
