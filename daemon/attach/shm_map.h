/* The daemon's view of the mapping that it shares with the agent (proto/shm.h). */
#pragma once

#include "common/err.h"
#include "proto/shm.h"
#include "proto/tables.h"

#include <stdbool.h>
#include <stdint.h>

/* How large the parts are whose size is not fixed. */
struct kp_shm_shape {
	uint32_t cell_count; /* of the ring, a power of two */
	uint32_t words; /* of a record, 1..KP_RING_WORDS_MAX */
	uint64_t tables_bytes; /* a multiple of 4096; 0: no tables */
	/* Behind the directory the target has mapped tables that it shares with others (plan). */
	bool tables_shared;
};

struct kp_shm_map {
	int fd; /* the memfd; owned */
	uint8_t *data;
	uint64_t bytes; /* in the target, tables included */
	uint64_t view_bytes; /* here: kp_shm_file_bytes() */
	struct kp_shm_head *head;
	struct kp_ring *ring;
	uint64_t tables_off;
	/*
	 * The area for tables (proto/tables.h): the directory, then, unless they are shared, tables
	 * at any 8-aligned offset from tables on. Both NULL where shape.tables_bytes is 0.
	 */
	struct kp_tables_directory *directory;
	uint8_t *tables;
	/* what the target must not be able to change */
	uint64_t base; /* in the target */
	struct kp_shm_shape shape;
};

/* Bytes of the whole mapping in the target, a multiple of 4096. */
uint64_t kp_shm_bytes(const struct kp_shm_shape *shape);

/* Bytes of its memfd: without tables that are shared. */
uint64_t kp_shm_file_bytes(const struct kp_shm_shape *shape);

/* Maps a memfd of that shape. Takes fd over in any case. */
int kp_shm_map_init(struct kp_shm_map *map, int fd, uint64_t base, const struct kp_shm_shape *shape,
		    struct kp_err *err);
void kp_shm_map_deinit(struct kp_shm_map *map);
