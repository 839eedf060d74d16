/* The daemon's view of the mapping that it shares with the agent (proto/shm.h). */
#pragma once

#include "common/err.h"
#include "proto/shm.h"

#include <stdint.h>

struct kp_shm_map {
	int fd; /* the memfd; owned */
	uint8_t *data;
	uint64_t bytes;
	struct kp_shm_head *head;
	struct kp_ring *ring;
	/* what the target must not be able to change */
	uint64_t base; /* in the target */
	uint32_t cell_count, depth;
};

/* Maps a memfd of that geometry. Takes fd over in any case. */
int kp_shm_map_init(struct kp_shm_map *map, int fd, uint64_t base, uint32_t cell_count,
		    uint32_t depth, struct kp_err *err);
void kp_shm_map_deinit(struct kp_shm_map *map);
