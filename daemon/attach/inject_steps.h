/* Private to attach/: what inject.c, launch.c and remove.c share. */
#pragma once

#include "daemon/attach/inject.h"
#include "daemon/attach/stop.h"

/* In memory that the helper shares with its parent. */
struct kp_inject_job {
	/* in */
	struct kp_target target;
	struct kp_agent_plan plan;
	pid_t owner_pid;
	uint64_t owner_start;
	/* out */
	uint64_t base;
	uint64_t stopped_ns;
	/* in, out */
	size_t mail_count;
	struct kp_mail mail[];
};

static inline size_t kp_inject_job_bytes(size_t mail_count)
{
	return sizeof(struct kp_inject_job) + mail_count * sizeof(struct kp_mail);
}

/*
 * Whether the agent can stand in front of an action of the target's own: a handler that wants what
 * ours has (siginfo, the alternate stack, every signal blocked) runs after ours as it would alone.
 */
bool kp_action_is_sharable(const struct kp_sigaction *action);

/* With owner filled in. NULL with *err on failure. */
struct kp_inject_job *kp_inject_job_create(const struct kp_agent_plan *plan, size_t mail_count,
					   struct kp_err *err);
void kp_inject_job_destroy(struct kp_inject_job *job);

static inline void kp_inject_job_destroyp(struct kp_inject_job **job)
{
	kp_inject_job_destroy(*job);
}

/* All steps in a stopped thread; undone on failure. *ret_fd: the memfd. */
int kp_inject_into(struct kp_stop *stop, struct kp_inject_job *job, int *ret_fd,
		   struct kp_err *err);

/*
 * Deletes all timers of ours and gives the signal's action back, in a stopped thread. map may be
 * NULL: then every deletion is a remote system call of its own.
 */
int kp_disarm(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid, uint64_t base, int signal,
	      struct kp_err *err);
