/* The children of a process, from /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* *ret is to be freed. Returns their number; 0 also where the kernel has no such file. */
size_t kp_proc_children(pid_t pid, pid_t **ret);

/*
 * Whether two processes have one memory, as after vfork() until the child execs (kcmp(2)). True as
 * well where the kernel will not tell.
 */
bool kp_proc_share_memory(pid_t a, pid_t b);
