/*
 * Which of the processes that /proc shows are meant by "all": those of one user, or of everyone, in
 * the PID namespace of this process; without kernel threads and without kitprof itself. Looks only:
 * whether one of them may be profiled is another question (attach/target.h).
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct kp_census {
	bool everyone; /* else only processes whose effective user is uid */
	uid_t uid;
	pid_t kitprof; /* it and its descendants are kitprof; 0: none */
	struct stat space; /* the PID namespace of this process */
	struct stat exe; /* the program of this process */
};

enum kp_census_kind {
	KP_CENSUS_WANTED,
	KP_CENSUS_GONE, /* it has ended */
	KP_CENSUS_OTHER_USER,
	KP_CENSUS_ELSEWHERE, /* in another PID namespace, as in a container */
	KP_CENSUS_HIDDEN, /* the kernel does not tell us in which */
	KP_CENSUS_KERNEL, /* a thread of the kernel */
	KP_CENSUS_KITPROF, /* by descent, or by the program that it executes */
	KP_CENSUS_KINDS,
};

/*
 * -KP_EREFUSED if /proc is that of another PID namespace: its numbers would mean other processes to
 * the kernel.
 */
int kp_census_init(struct kp_census *ret, bool everyone, uid_t uid, pid_t kitprof,
		   struct kp_err *err);

/* All pids of /proc, ascending; *ret is to be freed. */
int kp_census_list(pid_t **ret, size_t *ret_count, struct kp_err *err);

/*
 * Of a process that was wanted, or whose parent is, and may execute another program by now: whether
 * it is still meant. status: of now.
 */
bool kp_census_is_still_wanted(const struct kp_census *census, pid_t pid,
			       const struct kp_proc_status *status);

/* What pid is at this moment. *ret_status is filled in for all that have not ended. */
enum kp_census_kind kp_census_judge(const struct kp_census *census, pid_t pid,
				    struct kp_proc_status *ret_status);
