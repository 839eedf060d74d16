/*
 * Writes an unwind table (common/unwind/table.h), row after row in ascending order: finds each
 * rule's number, merges equal neighbours, begins each page with a row.
 */
#pragma once

#include "common/unwind/table.h"
#include "daemon/unwind/build.h"

#include <stddef.h>
#include <stdint.h>

struct kp_rows;

/* For code in [first, end), at most 4 GiB; it starts as a gap. NULL: out of memory. */
struct kp_rows *kp_rows_create(uint64_t first, uint64_t end);
void kp_rows_destroy(struct kp_rows *rows);

/* For _cleanup_. */
static inline void kp_rows_destroyp(struct kp_rows **rows)
{
	kp_rows_destroy(*rows);
}

/*
 * From address on *rule holds. Addresses ascend, within the code. More than 65536 different rules:
 * further ones become INVALID. 0, or -KP_ENOMEM, without words.
 */
int kp_rows_put(struct kp_rows *rows, uint64_t address, const struct kp_table_rule *rule);

/*
 * The table, as kp_unwind_build() returns it, and what was counted (rows, rules, bytes by kind).
 * 0, or -KP_ENOMEM. The rows are done for.
 */
int kp_rows_finish(struct kp_rows *rows, uint16_t machine, void **ret, size_t *ret_bytes,
		   struct kp_unwind_stats *stats);
