/*
 * Both halves of the directory of modules and tables: tables.h. The daemon's publishes, the agent's
 * looks up. No I/O, no waiting, no memory of its own.
 *
 * kp_tables_find() runs in the target's signal handler: no libc, no TLS, no lock, bounded loops; it
 * takes every word of the directory for untrusted.
 *
 * Why an entry that a reader gets is one that was published whole: it saw seq = s and reads half
 * s & 1. That half is written again by the publication of s + 2 only, which begins after s + 1 was
 * stored. If the reader got one word of that later writing, then the store of s + 1 happened before
 * its second look at seq, by the orders below, and that look cannot give s.
 */
#include "proto/tables.h"

#define LOOKS 2 /* at the directory, when it is replaced under way */

/* ---- daemon ---- */

/*
 * Release, each word by itself: pairs with the acquire in read_word(), and carries the seq that was
 * stored before, which took this half out of use.
 */
static void write_word(uint64_t *to, uint64_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
}

static void write_module(struct kp_tables_module *to, const struct kp_tables_module *from)
{
	write_word(&to->start, from->start);
	write_word(&to->end, from->end);
	write_word(&to->address, from->address);
	write_word(&to->table_off, from->table_off);
	write_word(&to->table_bytes, from->table_bytes);
}

void kp_tables_publish(struct kp_tables_directory *directory,
		       const struct kp_tables_module *modules, size_t count)
{
	/* Relaxed: nobody else writes it. */
	uint64_t seq = __atomic_load_n(&directory->seq, __ATOMIC_RELAXED) + 1;
	uint32_t n = count <= KP_TABLES_MODULES_MAX ? (uint32_t)count : KP_TABLES_MODULES_MAX;

	/* Release: as in write_word(). */
	__atomic_store_n(&directory->count[seq & 1], n, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < n; i++)
		write_module(&directory->module[seq & 1][i], &modules[i]);
	/*
	 * Release: the half is whole, and so are the tables that it points to. Pairs with the
	 * acquire in kp_tables_find().
	 */
	__atomic_store_n(&directory->seq, seq, __ATOMIC_RELEASE);
}

/* ---- reader: runs in the target's signal handler ---- */

/*
 * Acquire: the second look at seq comes after it, and sees what was stored before this word; pairs
 * with write_word().
 */
static uint64_t read_word(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* The number of modules that start at or below pc, out of count in ascending order. */
static uint32_t search(const struct kp_tables_module *module, uint32_t count, uint64_t pc)
{
	uint32_t low = 0, high = count;

	/* The interval shrinks whatever is read: 12 rounds at most. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (read_word(&module[middle].start) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int is_within_area(const struct kp_tables_module *module, uint64_t area_bytes)
{
	return module->table_off % sizeof(uint64_t) == 0 &&
	       module->table_off >= KP_TABLES_DIRECTORY_BYTES && module->table_off <= area_bytes &&
	       module->table_bytes <= area_bytes - module->table_off;
}

/* In one half, which may be written meanwhile: the caller finds that out. */
static int find_in(const struct kp_tables_directory *directory, unsigned half, uint64_t area_bytes,
		   uint64_t pc, struct kp_tables_module *ret)
{
	/* Acquire: as in read_word(). */
	uint32_t count = __atomic_load_n(&directory->count[half], __ATOMIC_ACQUIRE);
	const struct kp_tables_module *module = directory->module[half];
	uint32_t below;

	if (count > KP_TABLES_MODULES_MAX)
		return -1;
	below = search(module, count, pc);
	if (!below)
		return -1;
	module += below - 1;
	ret->start = read_word(&module->start);
	ret->end = read_word(&module->end);
	ret->address = read_word(&module->address);
	ret->table_off = read_word(&module->table_off);
	ret->table_bytes = read_word(&module->table_bytes);
	return pc >= ret->start && pc < ret->end && is_within_area(ret, area_bytes) ? 0 : -1;
}

int kp_tables_find(const struct kp_tables_directory *directory, uint64_t area_bytes, uint64_t pc,
		   struct kp_tables_module *ret)
{
	if (area_bytes < KP_TABLES_DIRECTORY_BYTES)
		return -1;
	/* Acquire: pairs with the release in kp_tables_publish(); the half and its tables are there. */
	uint64_t seq = __atomic_load_n(&directory->seq, __ATOMIC_ACQUIRE);

	for (int look = 0; look < LOOKS; look++) {
		int r = find_in(directory, seq & 1, area_bytes, pc, ret);
		/* Acquire: if it has changed, this one is the next round's. */
		uint64_t now = __atomic_load_n(&directory->seq, __ATOMIC_ACQUIRE);

		if (now == seq)
			return r;
		seq = now;
	}
	return -1;
}

static int look_up(struct kp_tables_lookup *lookup, uint64_t pc)
{
	struct kp_tables_module *module = &lookup->module;

	if (kp_tables_find(lookup->directory, lookup->area_bytes, pc, module) == 0 &&
	    kp_table_open(&lookup->table, (const char *)lookup->directory + module->table_off,
			  module->table_bytes, lookup->machine) == 0)
		return 0;
	module->start = module->end = 0; /* it was written to */
	return -1;
}

int kp_tables_find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	struct kp_tables_lookup *lookup = ctx;
	const struct kp_tables_module *module = &lookup->module;
	/*
	 * Acquire: before the look at the directory. If that is replaced in between, the module is
	 * taken for older than it is, and looked up once more.
	 */
	uint64_t seq = __atomic_load_n(&lookup->directory->seq, __ATOMIC_ACQUIRE);

	if (pc < module->start || pc >= module->end || seq != lookup->seq) {
		if (look_up(lookup, pc) < 0)
			return -1;
		lookup->seq = seq;
	}
	return kp_table_find(&lookup->table, pc - module->start + module->address, ret);
}
