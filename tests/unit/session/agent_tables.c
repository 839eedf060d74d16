/*
 * Unit tests of the directory of modules and tables that a handler sees: on an agent memory without
 * an agent, whose processes have the modules that the test gives them.
 */
#include "daemon/session/agent_tables.h"
#include "daemon/session/attachment.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROCESSES 3
#define MODULES_MAX 3000

static struct kp_err err;
static struct kp_agent_memory memory;
static struct kp_attachment process[PROCESSES];
static struct kp_known_module room[PROCESSES][MODULES_MAX];
static struct kp_stored stored[MODULES_MAX];
/* Without workers and files: the tests change what is stored themselves. */
static struct kp_store *store;

static int never(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		 struct kp_err *e)
{
	(void)image, (void)size, (void)name, (void)ret, (void)ret_bytes;
	return kp_fail(e, KP_EBADDATA, "not in this test");
}

static void begin_with(uint64_t tables_bytes, bool shared)
{
	struct kp_shm_shape shape = {
		.cell_count = 2, .words = 4, .tables_bytes = tables_bytes, .tables_shared = shared
	};
	struct kp_store_options options = { .machine = 62, .build = never };
	int fd = memfd_create("test", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, (off_t)kp_shm_file_bytes(&shape)), 0);
	cr_assert_eq(kp_shm_map_init(&memory.map, fd, 0, &shape, &err), 0);
	cr_assert_eq(kp_store_create(&options, &store, &err), 0);
	for (size_t i = 0; i < PROCESSES; i++) {
		process[i].memory = &memory;
		process[i].modules.module = room[i];
	}
	cr_assert_eq(kp_agent_memory_add(&memory, &process[0], &err), 0);
}

static void begin(uint64_t tables_bytes)
{
	begin_with(tables_bytes, false);
}

/* Tables of some bytes each; what is in them is told by the number. */
static struct kp_stored *table(uint32_t number, uint64_t bytes)
{
	struct kp_stored *s = &stored[number];

	if (!s->data) {
		void *data = malloc(bytes);

		memset(data, (int)number, bytes);
		*s = (struct kp_stored){ .state = KP_STORED_READY,
					 .number = number,
					 .data = data,
					 .bytes = bytes,
					 .segments = { { { 0, 1 << 20, 0x400000 } }, 1 } };
	}
	return s;
}

/* In order of start, as the map has it. */
static void map(size_t who, uint64_t start, uint64_t end, uint64_t offset, uint64_t inode,
		const struct kp_stored *mark)
{
	struct kp_modules *modules = &process[who].modules;

	modules->module[modules->count++] = (struct kp_known_module){
		.start = start, .end = end, .offset = offset, .inode = inode, .dev = 1, .mark = mark
	};
	modules->changed = true;
}

static void unmap_all(size_t who)
{
	process[who].modules.count = 0;
	process[who].modules.changed = true;
}

static void update(void)
{
	cr_assert_eq(kp_agent_tables_update(&memory, store, &err), 0);
}

/* What the handler would find at pc: the table's first byte, or -1. *ret_address: of pc. */
static int at(uint64_t pc, uint64_t *ret_address)
{
	struct kp_tables_module found;

	if (kp_tables_find(memory.map.directory, memory.map.shape.tables_bytes, pc, &found) != 0)
		return -1;
	if (ret_address)
		*ret_address = found.address + (pc - found.start);
	for (uint64_t i = 1; i < found.table_bytes; i++)
		cr_assert_eq(memory.map.tables[found.table_off + i],
			     memory.map.tables[found.table_off]);
	return memory.map.tables[found.table_off];
}

static uint64_t seq(void)
{
	return memory.map.directory->seq;
}

Test(agent_tables, tell_the_handler_of_each_module_that_has_one)
{
	uint64_t address;

	begin(1 << 20);
	map(0, 0x1000, 0x3000, 0x1000, 1, table(1, 100));
	map(0, 0x8000, 0x9000, 0, 2, NULL);
	map(0, 0xa000, 0xb000, 0x5000, 3, table(2, 300));
	update();
	cr_assert_eq(at(0x1000, &address), 1);
	cr_assert_eq(address, 0x401000);
	cr_assert_eq(at(0x2fff, &address), 1);
	cr_assert_eq(address, 0x402fff);
	cr_assert_eq(at(0x3000, NULL), -1);
	cr_assert_eq(at(0x8000, NULL), -1);
	cr_assert_eq(at(0xa123, &address), 2);
	cr_assert_eq(address, 0x405123);
	cr_assert_eq(memory.tables.modules, 3);
	cr_assert_eq(memory.tables.modules_with_table, 2);
}

Test(agent_tables, come_when_they_are_built)
{
	struct kp_stored *late = table(1, 100);

	begin(1 << 20);
	late->state = KP_STORED_BUILDING;
	map(0, 0x1000, 0x3000, 0, 1, late);
	update();
	cr_assert_eq(at(0x1000, NULL), -1);
	late->state = KP_STORED_READY;
	process[0].modules.changed = true;
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	cr_assert_eq(memory.tables.modules, 1);
	cr_assert_eq(memory.tables.modules_with_table, 1);
}

Test(agent_tables, are_published_again_only_when_something_changes)
{
	uint64_t before;

	begin(1 << 20);
	map(0, 0x1000, 0x3000, 0, 1, table(1, 100));
	update();
	before = seq();
	update();
	process[0].modules.changed = true;
	update();
	cr_assert_eq(seq(), before);
	map(0, 0x5000, 0x6000, 0, 2, table(2, 100));
	update();
	cr_assert_gt(seq(), before);
}

Test(agent_tables, leave_with_their_module)
{
	begin(1 << 20);
	map(0, 0x1000, 0x3000, 0, 1, table(1, 100));
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	unmap_all(0);
	map(0, 0x1000, 0x3000, 0, 2, table(2, 100));
	update();
	cr_assert_eq(at(0x1000, NULL), 2);
	unmap_all(0);
	update();
	cr_assert_eq(at(0x1000, NULL), -1);
	cr_assert_eq(memory.tables.modules, 2);
	cr_assert_eq(memory.tables.modules_with_table, 2);
}

Test(agent_tables, are_copied_once_for_all_mappings_of_a_module)
{
	uint64_t used;

	begin(1 << 20);
	map(0, 0x1000, 0x2000, 0, 1, table(1, 1001));
	update();
	used = memory.tables.used;
	cr_assert_eq(used % 8, 0);
	map(0, 0x2000, 0x3000, 0x4000, 1, table(1, 1001));
	update();
	unmap_all(0);
	update();
	map(0, 0x7000, 0x9000, 0, 1, table(1, 1001));
	update();
	cr_assert_eq(memory.tables.used, used);
	cr_assert_eq(at(0x7000, NULL), 1);
}

Test(agent_tables, stop_coming_where_the_area_is_full)
{
	begin(KP_TABLES_DIRECTORY_BYTES + 4096);
	map(0, 0x1000, 0x2000, 0, 1, table(1, 3000));
	map(0, 0x3000, 0x4000, 0, 2, table(2, 3000));
	map(0, 0x5000, 0x6000, 0, 3, table(3, 1096));
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	cr_assert_eq(at(0x3000, NULL), -1);
	cr_assert_eq(at(0x5000, NULL), 3);
	cr_assert_eq(memory.tables.left_out, 1);
	cr_assert_eq(memory.tables.modules_with_table, 2);
}

/* The directory points to where the store has them, as far as the target has that mapped. */
Test(agent_tables, stay_where_they_are_if_they_are_shared)
{
	struct kp_tables_module found;
	uint64_t bytes = KP_TABLES_DIRECTORY_BYTES + 8192;

	begin_with(bytes, true);
	cr_assert_eq(memory.map.view_bytes, memory.map.tables_off + KP_TABLES_DIRECTORY_BYTES);
	cr_assert_eq(memory.map.bytes, memory.map.tables_off + bytes);
	map(0, 0x1000, 0x3000, 0, 1, table(1, 100));
	map(0, 0x4000, 0x5000, 0, 2, table(2, 100));
	map(0, 0x6000, 0x7000, 0, 3, table(3, 100));
	stored[1].off = KP_TABLES_DIRECTORY_BYTES;
	stored[2].off = bytes - 104;
	stored[3].off = bytes - 96;
	update();
	cr_assert_eq(kp_tables_find(memory.map.directory, bytes, 0x1000, &found), 0);
	cr_assert_eq(found.table_off, KP_TABLES_DIRECTORY_BYTES);
	cr_assert_eq(kp_tables_find(memory.map.directory, bytes, 0x4000, &found), 0);
	cr_assert_eq(found.table_off, bytes - 104);
	cr_assert_eq(kp_tables_find(memory.map.directory, bytes, 0x6000, &found), -1);
	cr_assert_eq(memory.tables.left_out, 1);
	cr_assert_eq(memory.tables.used, KP_TABLES_DIRECTORY_BYTES, "something was copied");
}

Test(agent_tables, stop_coming_where_the_directory_is_full)
{
	begin(1 << 20);
	for (uint64_t i = 0; i < MODULES_MAX; i++)
		map(0, 0x1000 * (i + 1), 0x1000 * (i + 2), 0, 1, table(1, 8));
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	cr_assert_eq(at(0x1000 * KP_TABLES_MODULES_MAX, NULL), 1);
	cr_assert_eq(at(0x1000 * (KP_TABLES_MODULES_MAX + 1), NULL), -1);
	cr_assert_eq(memory.tables.left_out, MODULES_MAX - KP_TABLES_MODULES_MAX);
}

static void fork_to(size_t who)
{
	cr_assert_eq(kp_agent_memory_add(&memory, &process[who], &err), 0);
}

Test(agent_tables, are_those_of_parent_and_child)
{
	begin(1 << 20);
	map(0, 0x1000, 0x3000, 0, 1, table(1, 100));
	fork_to(1);
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	map(1, 0x1000, 0x3000, 0, 1, table(1, 100));
	map(1, 0x5000, 0x6000, 0, 2, table(2, 100));
	fork_to(2);
	map(2, 0x1000, 0x3000, 0, 1, table(1, 100));
	update();
	cr_assert_eq(at(0x1000, NULL), 1);
	cr_assert_eq(at(0x5000, NULL), 2);
	cr_assert_eq(memory.tables.modules, 2);
	/* The child ends. */
	kp_agent_memory_remove(&memory, &process[1]);
	update();
	cr_assert_eq(at(0x5000, NULL), -1);
}

Test(agent_tables, are_not_told_where_parent_and_child_differ)
{
	begin(1 << 20);
	map(0, 0x1000, 0x9000, 0, 1, table(1, 100));
	map(0, 0xa000, 0xb000, 0, 1, table(1, 100));
	map(0, 0xf000, 0xf800, 0, 1, table(1, 100));
	fork_to(1);
	map(1, 0x2000, 0x3000, 0, 2, table(2, 100));
	map(1, 0x4000, 0x5000, 0, 3, NULL);
	map(1, 0xa000, 0xb000, 0x1000, 1, table(1, 100));
	map(1, 0xc000, 0xd000, 0, 2, table(2, 100));
	update();
	cr_assert_eq(at(0x1000, NULL), -1);
	cr_assert_eq(at(0x2000, NULL), -1);
	cr_assert_eq(at(0x4000, NULL), -1);
	cr_assert_eq(at(0xa000, NULL), -1);
	cr_assert_eq(at(0xc000, NULL), 2);
	cr_assert_eq(at(0xf000, NULL), 1);
}

/* A table whose only rule holds for a page of code at 0x400000. */
static struct kp_stored *whole_table(uint32_t number, int32_t cfa_off)
{
	static struct {
		struct kp_table_head head;
		struct kp_table_rule rule;
		uint32_t pages[2];
		struct kp_table_row row;
	} whole = { .head = { .magic = KP_TABLE_MAGIC,
			      .version = KP_TABLE_VERSION,
			      .machine = 62,
			      .first = 0x400000,
			      .bytes = sizeof(whole),
			      .rule_count = 1,
			      .page_count = 1,
			      .row_count = 1 },
		    .rule = { .cfa = KP_CFA_SP },
		    .pages = { 0, 1 } };
	struct kp_stored *s = table(number, 8);

	whole.rule.cfa_off = cfa_off;
	cr_assert_eq(kp_table_open(&s->table, &whole, sizeof(whole), 62), 0);
	return s;
}

Test(agent_tables, are_what_the_daemon_walks_by)
{
	struct kp_stored *s = whole_table(1, 24);
	struct kp_table_rule rule;

	begin(1 << 20);
	fork_to(1);
	map(0, 0x1000, 0x3000, 0x1000, 1, s);
	cr_assert_eq(kp_agent_tables_find_rule(&process[0], 0x1004, &rule), 0);
	cr_assert_eq(rule.cfa_off, 24);
	cr_assert_eq(kp_agent_tables_find_rule(&process[0], 0x3000, &rule), -1);
	cr_assert_eq(kp_agent_tables_find_rule(&process[0], 0xfff, &rule), -1);
	/* A child that was not looked at yet has what its parent has. */
	cr_assert_eq(kp_agent_tables_find_rule(&process[1], 0x1004, &rule), 0);
	map(1, 0x5000, 0x6000, 0, 2, NULL);
	cr_assert_eq(kp_agent_tables_find_rule(&process[1], 0x1004, &rule), -1);
	cr_assert_eq(kp_agent_tables_find_rule(&process[1], 0x5004, &rule), -1);
	s->state = KP_STORED_BUILDING;
	cr_assert_eq(kp_agent_tables_find_rule(&process[0], 0x1004, &rule), -1);
}

Test(agent_tables, can_be_none)
{
	begin(0);
	map(0, 0x1000, 0x3000, 0, 1, table(1, 100));
	cr_assert_null(memory.map.directory);
	update();
	map(0, 0x4000, 0x5000, 0, 1, NULL);
	cr_assert_eq(kp_agent_tables_update(&memory, NULL, &err), 0);
	cr_assert_eq(memory.tables.modules, 2);
	cr_assert_eq(memory.tables.modules_with_table, 0);
}
