/* Private to attach/: what the onlooker's process does (onlooker.h). */
#pragma once

#include "daemon/attach/look.h"

/*
 * Until the socket's other end is closed: each message is the uint32_t number of a look to make, and
 * is sent back when that has its answer. All signals are blocked.
 */
void kp_onlooker_loop(int socket, struct kp_look *look);
