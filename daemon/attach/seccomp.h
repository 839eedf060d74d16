/*
 * Would the target's own seccomp filter let the agent work? The filter program is read and
 * evaluated here (classic BPF), for the system calls that the agent makes in a signal handler;
 * those of the injection itself are not filtered (PTRACE_O_SUSPEND_SECCOMP). Runs in the helper.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/stop.h"

/* For a stopped thread. -KP_EREFUSED with the system call and the verdict. */
int kp_seccomp_check(struct kp_stop *stop, struct kp_err *err);

/* For every thread of the process, each in a stop of its own. */
int kp_seccomp_check_threads(pid_t pid, struct kp_err *err);

struct sock_filter;
struct seccomp_data;

/*
 * What one filter returns for a call (SECCOMP_RET_... with data). A program that is not valid, or
 * does not end, gives SECCOMP_RET_KILL_PROCESS.
 */
uint32_t kp_seccomp_run(const struct sock_filter *program, size_t count,
			const struct seccomp_data *data);
