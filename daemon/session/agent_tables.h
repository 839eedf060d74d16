/*
 * Private to session/: what the handlers of one agent memory know of modules and their unwind tables
 * (proto/tables.h), kept as it is in the processes that have the memory. Session loop.
 *
 * A forked child has its parent's memory, so all of them have one directory. A module is in it if
 * no process has something else where it lies: what one of them has loaded since the fork, at an
 * address where another has nothing, holds for the one and does not matter to the other. Where two
 * differ, neither is there, and the frame pointer is tried.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/walk.h"
#include "daemon/unwind/store.h"
#include "daemon/watch/modules.h"
#include "proto/tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_agent_memory;
struct kp_attachment;

struct kp_agent_tables {
	struct kp_known_module *module; /* of all processes, ascending by start, as of the update */
	size_t count;
	struct kp_tables_module *published;
	size_t published_count;
	uint64_t *
		placed; /* offset of a table in the area by its number in the store; 0: not there */
	size_t placed_count;
	uint64_t used; /* bytes of the area */
	uint64_t changes; /* of the store, as of the update */
	bool users_changed; /* set by whoever adds or removes one */
	uint32_t modules, modules_with_table; /* different mappings seen so far */
	uint32_t left_out; /* tables that the area, or modules that the directory had no room for */
};

void kp_agent_tables_deinit(struct kp_agent_tables *tables);

/*
 * Brings the directory up to date, if something has changed. store: NULL where there are no tables;
 * then modules are counted. -KP_ENOMEM: nothing was published.
 */
int kp_agent_tables_update(struct kp_agent_memory *memory, const struct kp_store *store,
			   struct kp_err *err);

/* The mark of a module: its entry in the store. ctx: the store, or NULL. */
const void *kp_agent_tables_found(void *ctx, const struct kp_module_found *found);

/*
 * For walks in the daemon: the rule for the code at pc in the process of an attachment (ctx), as the
 * last look at its modules has them. A kp_find_rule_fn.
 */
int kp_agent_tables_find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret);

/* The same for modules (ctx: a struct kp_modules) whose marks are kp_agent_tables_found()'s. */
int kp_agent_tables_find_in(void *ctx, uint64_t pc, struct kp_table_rule *ret);
