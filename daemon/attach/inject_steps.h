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
	struct kp_shm_shape shape; /* with less room for tables than planned, or none */
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

/* A remote call whose failure (*ret < 0) is an error; what: its name in the message. */
int kp_inject_call(struct kp_stop *stop, const char *what, long nr, const uint64_t args[6],
		   int64_t *ret, struct kp_err *err);

/*
 * rt_sigaction in the target. Addresses there, of the kernel's struct sigaction (struct kp_sigaction
 * of proto/shm.h): of the new one, and of where the one before it goes; 0: none.
 */
int kp_action_set(struct kp_stop *stop, int signal, uint64_t new_action, uint64_t old_action,
		  struct kp_err *err);

/*
 * The shared memory, made and filled in, and mapped here as well. If the target has no room for the
 * tables it gets less of it, or none. *ret_fd: the memfd. Undone on failure.
 */
int kp_inject_memory(struct kp_stop *stop, struct kp_inject_job *job, struct kp_shm_map *map,
		     int *ret_fd, struct kp_err *err);
void kp_inject_unmap(struct kp_stop *stop, uint64_t base, uint64_t bytes);
void kp_inject_close(struct kp_stop *stop, int fd);

/* Into the reserved memory, which a tracer may write to although the target may not. */
int kp_inject_write_word(struct kp_stop *stop, uint64_t addr, const char text[8],
			 struct kp_err *err);

/* A piece of a memfd at its place in the reserved memory. */
struct kp_inject_part {
	const char *name; /* for messages */
	uint64_t from, to; /* from the base on */
	uint64_t off; /* in the memfd */
	int prot;
};

/* -KP_ESYSTEM where the target's kernel refuses, or where the part is outside of the reservation. */
int kp_inject_map(struct kp_stop *stop, const struct kp_shm_map *map, int target_fd,
		  const struct kp_inject_part *part, struct kp_err *err);

/*
 * Has the target open the plan's tables_fd, by the path that it has in /proc; job->base: reserved
 * memory. *ret: a descriptor of the target's, to be closed there; -1 where it cannot, or where a call
 * more is not worth it. < 0 only if the target is gone.
 */
int kp_inject_open_shared(struct kp_stop *stop, const struct kp_inject_job *job, int *ret);

/* Maps them behind the directory. */
int kp_inject_map_shared(struct kp_stop *stop, const struct kp_shm_map *map, int tables_fd,
			 struct kp_err *err);

/* All steps in a stopped thread; undone on failure. *ret_fd: the memfd. */
int kp_inject_into(struct kp_stop *stop, struct kp_inject_job *job, int *ret_fd,
		   struct kp_err *err);

/*
 * Deletes all timers of ours and gives the signal's action back, in a stopped thread. map may be
 * NULL: then every deletion is a remote system call of its own.
 */
int kp_disarm(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid, uint64_t base, int signal,
	      struct kp_err *err);
