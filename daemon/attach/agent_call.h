/* Private to attach/: having the injected agent work mail off in a stopped thread. */
#pragma once

#include "daemon/attach/shm_map.h"
#include "daemon/attach/stop.h"

#include <stddef.h>

/*
 * Posts the mails in turn, runs the agent until they are done, writes the results back. Mail that
 * waits in the box already is worked off too; its results stay in their slots as long as no more
 * than KP_MAIL_SLOTS are posted after it.
 */
int kp_agent_work_off(struct kp_stop *stop, struct kp_shm_map *map, struct kp_mail *mail, size_t count,
		      struct kp_err *err);
