/*
 * Private to session/: early samples, those that the kernel takes by itself of what was born or has
 * been executed in the window (kp_task_events_sample()). They count until a thread's own clocks run,
 * so a short life is sampled as well, and a program before the agent is in it. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/session/family.h"
#include "daemon/watch/task_events.h"

#include <stdbool.h>

/* Whether there are any in this session. */
bool kp_early_is_on(const struct kp_family *family);

/* A thread has been born, sampled: all its samples count until it has clocks of its own. */
int kp_early_born(struct kp_family *family, struct kp_process *process, pid_t tid,
		  struct kp_err *err);

/* The process executes another program, of which nothing is mapped yet. */
void kp_early_exec(struct kp_family *family, struct kp_process *process);

/* Something was mapped in it, before the agent is there to look. */
int kp_early_mapped(struct kp_family *family, struct kp_process *process, const struct kp_map *map,
		    struct kp_err *err);

/* A KP_TASK_SAMPLE of the process, which may have ended. */
int kp_early_sample(struct kp_family *family, struct kp_process *process,
		    const struct kp_task_event *event, struct kp_err *err);
