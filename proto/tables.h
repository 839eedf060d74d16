/*
 * What the handler knows of the target's modules: a directory, and the unwind tables that it points
 * to (common/unwind/table.h). Both lie in the part of the shared mapping that the target has
 * read-only (proto/shm.h: KP_SHM tables area); the daemon writes them through its own mapping at
 * any time, without stopping anybody. Tables are only ever added to the area.
 *
 * The directory has two halves. The daemon fills the one that is not published, then publishes it
 * by adding one to seq; a reader takes the half seq & 1, and what it copied from it is good if seq
 * is still the same afterwards: the half is written again only after the next publication.
 *
 * The reader half runs in the target's signal handler: no libc, no TLS, no lock, bounded loops. It
 * checks whatever it takes from here against the area's size.
 */
#pragma once

#include "common/unwind/table.h"

#include <stddef.h>
#include <stdint.h>

#define KP_TABLES_MODULES_MAX 2048u

/* Code mapped at [start, end) in the target, and its table. */
struct kp_tables_module {
	uint64_t start, end;
	uint64_t address; /* of start, in the ELF file's own numbering */
	uint64_t table_off; /* of its table in the area, 8-aligned */
	uint64_t table_bytes;
};
_Static_assert(sizeof(struct kp_tables_module) == 40, "layout is shared with the target");

struct kp_tables_directory {
	uint64_t seq; /* atomic; publications so far */
	uint32_t count[2];
	struct kp_tables_module module[2][KP_TABLES_MODULES_MAX]; /* ascending by start */
};

/* Bytes at the start of the area that the directory has for itself; tables follow. */
#define KP_TABLES_DIRECTORY_BYTES ((sizeof(struct kp_tables_directory) + 4095) & ~(size_t)4095)

/*
 * Daemon: publishes these modules, ascending by start and not overlapping; more than
 * KP_TABLES_MODULES_MAX are cut off. The tables they point to are complete.
 */
void kp_tables_publish(struct kp_tables_directory *directory,
		       const struct kp_tables_module *modules, size_t count);

/*
 * Reader: the module that has pc. area_bytes: of directory and tables together. 0 with *ret filled
 * in, its table within the area; -1 where there is none, or where the directory was being replaced.
 */
int kp_tables_find(const struct kp_tables_directory *directory, uint64_t area_bytes, uint64_t pc,
		   struct kp_tables_module *ret);

/*
 * Reader: rules for the code of a whole process. It remembers the module that it found last, since
 * frames of one library follow each other.
 */
struct kp_tables_lookup {
	const struct kp_tables_directory *directory; /* at the start of the area */
	uint64_t area_bytes;
	uint16_t machine; /* e_machine */
	uint64_t seq; /* of the directory that the module is from */
	struct kp_tables_module module; /* empty: none yet */
	struct kp_table table; /* of the module */
};

/* Field by field: what is not said is not written to, by a memset() that is not there. */
static inline void kp_tables_lookup_init(struct kp_tables_lookup *lookup,
					 const struct kp_tables_directory *directory,
					 uint64_t area_bytes, uint16_t machine)
{
	lookup->directory = directory;
	lookup->area_bytes = area_bytes;
	lookup->machine = machine;
	lookup->seq = 0;
	lookup->module.start = lookup->module.end = 0;
}

/* A kp_find_rule_fn of common/unwind/walk.h; ctx: a struct kp_tables_lookup. */
int kp_tables_find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret);
