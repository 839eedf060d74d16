/* Private to watch/: a set of thread ids. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct kp_tid_set {
	pid_t *tid; /* ascending */
	size_t count, room;
};

bool kp_tid_set_has(const struct kp_tid_set *set, pid_t tid);
int kp_tid_set_add(struct kp_tid_set *set, pid_t tid, struct kp_err *err);
void kp_tid_set_remove(struct kp_tid_set *set, pid_t tid);
void kp_tid_set_deinit(struct kp_tid_set *set);
