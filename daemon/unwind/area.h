/*
 * The unwind tables of a session in one memfd, which the daemon reads and each target that can open
 * it maps (read-only), so that a table is in memory once, whoever has the module. The first bytes
 * can stay empty, for what each target has of its own in their place.
 *
 * Tables are only added. The file ends where the last one does: a target that locks its memory has
 * no more of it than there is. Session loop; the view is not inherited by forked helpers, who lock
 * all their memory too.
 */
#pragma once

#include "common/err.h"

#include <stdint.h>

struct kp_table_area {
	int fd; /* owned */
	const uint8_t *view; /* of room bytes; readable up to used */
	uint64_t used; /* what stays empty included */
	uint64_t room;
};

/*
 * name: of the memfd. empty: bytes at the start that are left alone, a multiple of 4096. room: bytes
 * of address space that are wanted; less is taken where there is not so much.
 */
int kp_table_area_init(struct kp_table_area *area, const char *name, uint64_t empty, uint64_t room,
		       struct kp_err *err);
void kp_table_area_deinit(struct kp_table_area *area);

/*
 * Copies a table. *ret_off: where it is from now on, 8-aligned. 0, or -1 where there is no room or
 * no memory; then the area is as it was.
 */
int kp_table_area_add(struct kp_table_area *area, const void *table, uint64_t bytes,
		      uint64_t *ret_off);
