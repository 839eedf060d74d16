/*
 * The agent's image for the CPU that the daemon runs on, as agent/embed.py wrote it into the
 * program: struct kp_agent_header (proto/shm.h) first, at most KP_SHM_CODE_BYTES.
 */
#pragma once

#include <stddef.h>

extern const unsigned char kp_agent_blob[];
extern const size_t kp_agent_blob_size;
