/*
 * Putting the agent into a process and taking it out again. Each call stops one thread for a
 * moment, in a helper process (helper.h), and lets it go; nothing is traced when it returns.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/walk.h"
#include "daemon/attach/shm_map.h"
#include "daemon/attach/target.h"
#include "proto/shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the agent shall do. */
struct kp_agent_plan {
	int signal;
	uint32_t depth; /* frames per sample, 1..KP_DEPTH_MAX */
	uint32_t cell_count; /* of the ring, a power of two */
	uint32_t words; /* of its records: depth, or for slices more; 1..KP_RING_WORDS_MAX */
	uint64_t ticket_max; /* samples at most */
	uint64_t period_ns; /* of the CPU timers */
	enum kp_timer_mode timer_mode;
	uint64_t lease; /* ticks of timers until the first heartbeat */
	enum kp_unwind_mode unwind;
	uint32_t slice_bytes; /* of the stack in a slice; KP_UNWIND_SLICE only */
	uint64_t tables_bytes; /* of the area for tables: KP_SHM_TABLES_BYTES, or 0 for none */
	/*
	 * Memory of ours that is mapped behind the directory, read-only, at its own offset there. A
	 * target that cannot open it has an area of its own. -1: none.
	 */
	int tables_fd;
};

/* Timers to arm with the injection; results are written back. count may be 0. */
struct kp_mail_list {
	struct kp_mail *mail;
	size_t count;
};

/*
 * Injects into a target that kp_target_check() accepted, and works mails off in the same stop.
 * *ret: the shared mapping, to be deinited by the caller after kp_remove(); its shape.tables_bytes is
 * less than the plan's, or 0, where the target has no address space for so much; shape.tables_shared
 * tells whether it has tables_fd mapped. *ret_stopped_ns: how
 * long a thread stood still. On failure the target is as it was before.
 */
int kp_inject(const struct kp_target *target, const struct kp_agent_plan *plan,
	      struct kp_mail_list mails, struct kp_shm_map *ret, uint64_t *ret_stopped_ns,
	      struct kp_err *err);

/*
 * Has the mail that waits for pid (mailbox.h) worked off in a stop: for threads that no handler run
 * will arm. flush: 0, or the sampling signal, of which all that are pending in the process are then
 * dropped; those of threads that block it would stay for good.
 */
int kp_work_off_in_stop(pid_t pid, struct kp_shm_map *map, int flush, uint64_t *ret_stopped_ns,
			struct kp_err *err);

/*
 * Deletes all our timers, restores the signal's action, proves that no thread executes the agent,
 * unmaps it. Events are stopped by the caller before, and map->head->on is 0 unless another process
 * that shares the mapping is sampled on. map may be NULL (what a dead kitprof
 * left): then base and end say where. A target that is gone, or has exec'd another program, is no
 * error. On failure the mapping stays, harmless: no clock runs, the action is restored.
 */
int kp_remove(pid_t pid, struct kp_shm_map *map, uint64_t base, uint64_t end, int signal,
	      uint64_t *ret_stopped_ns, struct kp_err *err);

/*
 * Starts argv[0] (searched in PATH) as a child with the agent in it from its first instruction.
 * signal: as for kp_target_check(). mail: the request for its main thread's timer, whose tid and
 * results are filled in. The program is a child to wait for, ret_target->pid.
 *
 * -KP_EREFUSED, -KP_ESYSTEM: no program runs (a child was killed before its first instruction).
 * KP_LAUNCH_NOT_FOUND, KP_LAUNCH_NOT_EXECUTABLE (> 0): as a shell would say with 127 and 126; err
 * has the words.
 */
enum { KP_LAUNCH_NOT_FOUND = 1, KP_LAUNCH_NOT_EXECUTABLE = 2 };

/* Each may be NULL. */
struct kp_launch_hooks {
	void (*child_exists)(void *ctx, pid_t pid); /* in the caller, before the child execs */
	void *ctx;
	void (*before_exec)(void *ctx); /* in the child, last thing before exec */
	void *before_exec_ctx;
};

int kp_launch(char *const argv[], int signal, const struct kp_agent_plan *plan,
	      struct kp_mail *mail, const struct kp_launch_hooks *hooks,
	      struct kp_target *ret_target, struct kp_shm_map *ret_map, uint64_t *ret_stopped_ns,
	      struct kp_err *err);

/* Who has the signal's action in the target. No file in /proc shows which handler it is. */
enum kp_action {
	KP_ACTION_OURS, /* the agent's handler */
	KP_ACTION_TAKEN, /* the target has put another one in its place */
	KP_ACTION_SHARED, /* it had, and now the agent's stands in front of that one */
};

/*
 * Looks in a short stop. share: a handler of the target's own that can stand behind the agent's is
 * put there (struct kp_target's shares_signal).
 */
int kp_action_hold(pid_t pid, const struct kp_shm_map *map, int signal, bool share,
		   enum kp_action *ret, struct kp_err *err);

/* Whether the agent is still mapped: false after an exec, or when the target is gone. */
bool kp_is_injected(pid_t pid, uint64_t base);
