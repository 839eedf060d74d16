/*
 * Private to session/: forks and execs of the family's processes.
 */
#pragma once

#include "daemon/session/family.h"

/* Learns what was born and exec'd since the last time, and attaches to it. */
int kp_follow(struct kp_family *family, uint64_t elapsed_ns, struct kp_err *err);

/* A process that was found, and not heard of at its birth: joins the family, and is attached to. */
void kp_follow_stranger(struct kp_family *family, pid_t pid, const struct kp_proc_status *status);

/* Learns once more, when the window is over, how long those ran that have ended. */
int kp_follow_last(struct kp_family *family, struct kp_err *err);

/* Attaches to the program that a process executes now; one that just begins is tried again later. */
void kp_follow_image(struct kp_family *family, struct kp_process *process);

/* The same where that was put off, if it is time. */
void kp_follow_retry(struct kp_family *family, struct kp_process *process);

/*
 * The same if the process executes another program than the agent got into; false if it does not.
 * exec: the event that told of it, or NULL.
 */
bool kp_follow_exec(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns,
		    const struct kp_task_event *exec);

/* A program that cannot be sampled: counted, and said with the reason. */
void kp_follow_refuse(struct kp_family *family, const struct kp_err *why);
