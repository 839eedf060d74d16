/* Private to attach/: having the injected agent work mail off in a stopped thread. */
#pragma once

#include "daemon/attach/shm_map.h"
#include "daemon/attach/stop.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the agent's mapping is at base in the memory of a thread, which need not be stopped. False
 * also where that may not be read.
 */
bool kp_agent_has_head(pid_t tid, uint64_t base);

/*
 * -KP_EGONE where the agent's mapping is not at base in the stopped thread's program: it has exec'd
 * since it was looked at, and what is at that address is its own.
 */
int kp_agent_is_there(struct kp_stop *stop, uint64_t base, struct kp_err *err);

/*
 * Posts the mails for the stopped thread's process, runs the agent until they are done, writes the
 * results back. Other mail for that process that waits in the box is worked off too; its results
 * stay in its slots. ns_pid: the process in its own pid namespace.
 */
int kp_agent_work_off(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid,
		      struct kp_mail *mail, size_t count, struct kp_err *err);
