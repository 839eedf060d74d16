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

/*
 * Whether pid is a child of vfork() that has not exec'd, so that its memory is that of parent. Where
 * the kernel will not tell: whether the parent stands still as if it were.
 */
bool kp_proc_is_vforked(pid_t pid, pid_t parent);
