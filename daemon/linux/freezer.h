/* Whether a process stands still because its cgroup is frozen, as by `docker pause`. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * By cgroup.events (version 2) or freezer.state (version 1) of its cgroup, where those can be read:
 * the hierarchies are looked for at their usual places below /sys/fs/cgroup. False also where it is
 * not known.
 */
bool kp_is_frozen(pid_t pid);
