/*
 * One stopped thread of the target, and what can be done with it. Runs in the attach helper
 * (helper.h): short, with all signals blocked. Everything that a stop disturbs is repaired when
 * the thread is let go: registers, signal mask, a restartable sequence (rseq), a call that would
 * return EINTR. Job control goes on during a stop and takes effect after it.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/cpu.h"
#include "daemon/attach/vdso.h"
#include "proto/shm.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_stop {
	pid_t pid, tid;
	struct kp_cpu_regs saved; /* as it will go on */
	uint64_t saved_mask; /* its signal mask */
	struct kp_vdso vdso; /* of the program that stands still, checked after the stop */
	uint64_t since_ns; /* CLOCK_MONOTONIC, when it stood still */
	bool held;
};

#define KP_STOP_TIMEOUT_MS 50

/*
 * Seizes the thread and stops it. Signals that are delivered on the way reach the thread. Fails
 * with -KP_EBUSY when it does not stop in time (uninterruptible sleep), -KP_EGONE when it ends.
 */
int kp_stop_begin(struct kp_stop *stop, pid_t pid, pid_t tid, struct kp_err *err);

/*
 * Stops the best thread: one that runs, else one in a call that restarts by itself, else any; never
 * one in uninterruptible sleep or a worker of io_uring. Tries for a second where there is none, as
 * in a process that waits for its vfork() child; then -KP_EBUSY. -KP_EGONE when the process ended.
 */
int kp_stop_any(struct kp_stop *stop, pid_t pid, struct kp_err *err);

/*
 * Takes over a thread that is already traced by this process and in a ptrace stop from which it can
 * be let run with PTRACE_CONT (an exec stop).
 */
int kp_stop_adopt(struct kp_stop *stop, pid_t pid, pid_t tid, struct kp_err *err);

/* Lets it go; the stop is over whatever happens. Returns the ns that the thread stood still. */
uint64_t kp_stop_end(struct kp_stop *stop);

/*
 * A system call in the stopped thread, on the vdso's own instruction. *ret is its result (-errno
 * on failure of the call itself). < 0: the thread is lost.
 */
int kp_stop_syscall(struct kp_stop *stop, long nr, const uint64_t args[6], int64_t *ret,
		    struct kp_err *err);

/*
 * Runs kp_agent_call() of the injected agent at that address until it has set head->call_done.
 * head: the daemon's view of it.
 */
int kp_stop_call(struct kp_stop *stop, uint64_t entry, uint64_t stack_top, struct kp_shm_head *head,
		 struct kp_err *err);

/* Lets the thread run for a moment (so that it leaves a signal handler of ours) and stops it again. */
int kp_stop_yield(struct kp_stop *stop, struct kp_err *err);
