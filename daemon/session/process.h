/*
 * Private to session/: one process of the family, as family.c, follow.c and turn.c use it.
 */
#pragma once

#include "daemon/session/family.h"

/* A line to whoever listens. */
void kp_family_say(const struct kp_family *family, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The process of that pid that has not ended, or NULL. */
struct kp_process *kp_family_find(const struct kp_family *family, pid_t pid);

/* A new one, without the agent. NULL when out of memory. */
struct kp_process *kp_family_add(struct kp_family *family, pid_t pid, struct kp_err *err);

bool kp_family_is_target(const struct kp_family *family, const struct kp_process *process);

/* Checks the process and puts the agent into the program that it executes. */
int kp_process_attach(struct kp_family *family, struct kp_process *process, struct kp_err *err);

/* Its CPU time from here on is the window's; of one that was born in it, all. */
void kp_process_begin_cpu(const struct kp_family *family, struct kp_process *process);

/* A KP_TASK_RAN of one of its threads. */
int kp_process_ran(struct kp_family *family, struct kp_process *process,
		   const struct kp_task_event *event, struct kp_err *err);

/* CPU time of the process in the window, as far as is known. */
uint64_t kp_process_cpu_ns(const struct kp_process *process);

/* Writes PROCESS and THREAD of the image that it is now, if an attachment has not. */
int kp_process_name(struct kp_family *family, struct kp_process *process, struct kp_err *err);

/* Takes the agent out, if it is there, and adds the figures to the family's sums. */
void kp_process_close(struct kp_family *family, struct kp_process *process, uint64_t elapsed_ns);
