/* The children of a process, from /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* *ret is to be freed. Returns their number; 0 also where the kernel has no such file. */
size_t kp_proc_children(pid_t pid, pid_t **ret);
