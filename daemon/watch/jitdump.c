/* What JIT compilers say of their code, for perf: jitdump.h. Daemon, session loop. */
#include "daemon/watch/jitdump.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT32_C(0x4a695444) /* "DTiJ" in a file of this byte order */
#define VERSION 1u
#define NAME_MAX_BYTES 16384 /* a longer one is cut */
#define LOADS_MAX (1u << 20) /* that a later move may refer to */
#define STEPS_MAX (UINT64_C(1) << 28) /* of the search for them */

enum { CODE_LOAD = 0, CODE_MOVE = 1 };

struct file_header {
	uint32_t magic, version, total_size, elf_mach, pad, pid;
	uint64_t timestamp, flags;
};
_Static_assert(sizeof(struct file_header) == 40, "layout of perf");

struct record_header {
	uint32_t id, total_size; /* this header included */
	uint64_t timestamp;
};
_Static_assert(sizeof(struct record_header) == 16, "layout of perf");

/* A name and the code follow. */
struct code_load {
	uint32_t pid, tid;
	uint64_t vma, code_addr, code_size, code_index;
};
_Static_assert(sizeof(struct code_load) == 40, "layout of perf");

struct code_move {
	uint32_t pid, tid;
	uint64_t vma, old_code_addr, new_code_addr, code_size, code_index;
};
_Static_assert(sizeof(struct code_move) == 48, "layout of perf");

struct load {
	uint64_t code_index;
	off_t name; /* where it lies in the file */
};

struct reading {
	FILE *dump;
	kp_compiled_fn fn;
	void *ctx;
	char *name; /* NAME_MAX_BYTES */
	struct load *load;
	size_t load_count, load_room;
	uint64_t steps;
};

bool kp_jitdump_is_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	unsigned pid;
	int end = 0;

	return sscanf(name, "jit-%u.dump%n", &pid, &end) == 1 && end > 0 && !name[end];
}

static void reading_deinit(struct reading *reading)
{
	free(reading->name);
	free(reading->load);
}

/* Of at most size bytes. false: it does not end, or there is none. */
static bool read_name(struct reading *reading, uint64_t size)
{
	size_t n = 0;

	for (uint64_t i = 0; i < size; i++) {
		int c = getc_unlocked(reading->dump);

		if (c == EOF)
			return false;
		if (c == '\0' || c == '\n') {
			reading->name[n] = '\0';
			return n;
		}
		if (n < NAME_MAX_BYTES - 1)
			reading->name[n++] = (char)c;
	}
	return false;
}

static int tell(struct reading *reading, uint64_t start, uint64_t size, struct kp_err *err)
{
	if (!size || size > UINT64_MAX - start)
		return 0;
	return reading->fn(reading->ctx, start, start + size, reading->name, err);
}

static int keep(struct reading *reading, uint64_t code_index, off_t name, struct kp_err *err)
{
	if (reading->load_count == reading->load_room) {
		size_t room = reading->load_room ? reading->load_room * 2 : 256;
		struct load *grown = room <= LOADS_MAX
					     ? reallocarray(reading->load, room, sizeof(*grown))
					     : NULL;

		if (!grown)
			return room <= LOADS_MAX ? kp_fail_nomem(err) : 0;
		reading->load = grown;
		reading->load_room = room;
	}
	reading->load[reading->load_count++] = (struct load){ code_index, name };
	return 0;
}

static int take_load(struct reading *reading, uint64_t size, struct kp_err *err)
{
	struct code_load load;
	off_t name;
	int r;

	if (size < sizeof(load) || fread(&load, sizeof(load), 1, reading->dump) != 1)
		return 0;
	name = ftello(reading->dump);
	if (name < 0 || !read_name(reading, size - sizeof(load)))
		return 0;
	r = keep(reading, load.code_index, name, err);
	return r < 0 ? r : tell(reading, load.code_addr, load.code_size, err);
}

/* The same code at another place: it keeps its name. */
static int take_move(struct reading *reading, uint64_t size, struct kp_err *err)
{
	struct code_move move;
	size_t i = reading->load_count;

	if (size < sizeof(move) || fread(&move, sizeof(move), 1, reading->dump) != 1)
		return 0;
	while (i > 0 && reading->load[i - 1].code_index != move.code_index &&
	       reading->steps++ < STEPS_MAX)
		i--;
	if (i == 0 || reading->load[i - 1].code_index != move.code_index ||
	    fseeko(reading->dump, reading->load[i - 1].name, SEEK_SET) != 0 ||
	    !read_name(reading, UINT64_MAX))
		return 0;
	return tell(reading, move.new_code_addr, move.code_size, err);
}

/* 1: there is no further one. */
static int take_record(struct reading *reading, struct kp_err *err)
{
	struct record_header header;
	off_t start = ftello(reading->dump);
	uint64_t size;
	int r = 0;

	if (start < 0 || fread(&header, sizeof(header), 1, reading->dump) != 1 ||
	    header.total_size < sizeof(header))
		return 1;
	size = header.total_size - sizeof(header);
	if (header.id == CODE_LOAD)
		r = take_load(reading, size, err);
	else if (header.id == CODE_MOVE)
		r = take_move(reading, size, err);
	if (r < 0)
		return r;
	return fseeko(reading->dump, start + (off_t)header.total_size, SEEK_SET) != 0;
}

int kp_jitdump_read(FILE *dump, kp_compiled_fn fn, void *ctx, struct kp_err *err)
{
	_cleanup_(reading_deinit) struct reading reading = { .dump = dump, .fn = fn, .ctx = ctx };
	struct file_header header;
	int r = 0;

	reading.name = malloc(NAME_MAX_BYTES);
	if (!reading.name)
		return kp_fail_nomem(err);
	if (fseeko(dump, 0, SEEK_SET) != 0 || fread(&header, sizeof(header), 1, dump) != 1 ||
	    header.magic != MAGIC || header.version != VERSION ||
	    fseeko(dump, (off_t)header.total_size, SEEK_SET) != 0)
		return 0;
	while (r == 0)
		r = take_record(&reading, err);
	return r < 0 ? r : 0;
}
