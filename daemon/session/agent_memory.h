/*
 * Private to session/: one mapping of the agent with its ring, and the processes that have it. A
 * forked child shares its parent's; an exec'd program gets one of its own. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/shm_map.h"
#include "daemon/drain/drain.h"
#include "daemon/session/agent_tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_attachment;
struct kp_attachment_plan;

struct kp_agent_memory {
	struct kp_shm_map map;
	struct kp_drain drain;
	struct kp_agent_tables tables;
	int signal;
	struct kp_attachment **user; /* whose samples are in the ring; the first is its maker */
	size_t user_count, user_room;
};

/* Takes map over. plan: of the session; its count of samples left is shared by all memories. */
int kp_agent_memory_create(struct kp_shm_map *map, int signal, struct kp_attachment_plan *plan,
			   struct kp_agent_memory **ret, struct kp_err *err);
void kp_agent_memory_destroy(struct kp_agent_memory *memory);

int kp_agent_memory_add(struct kp_agent_memory *memory, struct kp_attachment *user,
			struct kp_err *err);
void kp_agent_memory_remove(struct kp_agent_memory *memory, struct kp_attachment *user);
