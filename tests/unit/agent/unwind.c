/*
 * How the agent's image unwinds: by tables that are published while it runs, and in slices. Stacks
 * and code are made up, the same for each CPU. Runs on each CPU that has an image, the foreign ones
 * under qemu; never with Criterion, because that is not packaged for them.
 */
#undef KP_TEST_CRITERION
#include "tests/support/test.h"

#include "rig.h"

#include "common/unwind/walk.h"

#include <sys/mman.h>

#define CELLS 16
#define DEPTH 64
#define WORDS 64 /* of the stack */
#define AREA_BYTES (KP_TABLES_DIRECTORY_BYTES + (UINT64_C(1) << 20))

/* The code: functions of 256 bytes, of which nothing exists; pc is in the middle of one. */
#define CODE UINT64_C(0x7000000)
#define PC(function) (CODE + 0x100 * (uint64_t)(function) + 0x80)
#define ADDRESS UINT64_C(0x400000) /* of CODE, in its file */
#define FUNCTIONS_MAX 16

/* A table with one rule for each function, as daemon/unwind would write it. */
struct made_table {
	struct kp_table_head head;
	struct kp_table_rule rules[FUNCTIONS_MAX];
	uint32_t pages[2];
	struct kp_table_row rows[FUNCTIONS_MAX];
};

static _Alignas(16) uint64_t stack[WORDS];

static uint64_t at(uint32_t word)
{
	return (uint64_t)(uintptr_t)&stack[word];
}

/* CFA = sp + bytes, with the return address in the word below; fp untouched. */
static struct kp_table_rule frame_of(int32_t bytes)
{
	return (struct kp_table_rule){
		.cfa = KP_CFA_SP, .cfa_off = bytes, .ra = KP_REG_CFA, .ra_off = -8
	};
}

static const struct kp_table_rule stop = { .cfa = KP_CFA_STOP };

/* The part of the table that is used ends inside of the structure. */
static void put_table(struct rig *rig, uint64_t off, const struct kp_table_rule *rules, uint32_t n)
{
	struct made_table table = {
		.head = {
			.magic = KP_TABLE_MAGIC,
			.version = KP_TABLE_VERSION,
			.machine = rig_arch()->elf_machine,
			.first = ADDRESS,
			.bytes = sizeof(table),
			.rule_count = FUNCTIONS_MAX,
			.page_count = 1,
			.row_count = n,
		},
		.pages = { 0, n },
	};

	for (uint32_t i = 0; i < n; i++) {
		table.rules[i] = rules[i];
		table.rows[i] = (struct kp_table_row){ (uint16_t)(0x100 * i), (uint16_t)i };
	}
	memcpy(rig->tables + off, &table, sizeof(table));
}

static void publish(struct rig *rig, uint64_t start, uint64_t table_off)
{
	const struct kp_tables_module module = {
		.start = start,
		.end = start + 0x10000,
		.address = ADDRESS,
		.table_off = table_off,
		.table_bytes = sizeof(struct made_table),
	};

	kp_tables_publish((struct kp_tables_directory *)(void *)rig->tables, &module, 1);
}

static void open_with_table(struct rig *rig, const struct kp_table_rule *rules, uint32_t n)
{
	rig_open_with(rig, CELLS, DEPTH, AREA_BYTES);
	put_table(rig, KP_TABLES_DIRECTORY_BYTES, rules, n);
	publish(rig, CODE, KP_TABLES_DIRECTORY_BYTES);
}

static const struct kp_ring_record *sample_at(struct rig *rig, uint64_t pc, uint64_t sp,
					      uint64_t fp)
{
	siginfo_t info = rig_timer_info(0, 0);
	struct kp_regs regs = { .pc = pc, .sp = sp, .fp = fp };
	const struct kp_ring_record *record;

	rig_call_handler(rig, &info, &regs);
	record = rig_read(rig);
	cr_assert_not_null(record);
	return record;
}

/* Three frames without frame pointers: functions 0, 1, 2, of which the last has no caller. */
static void make_stack(void)
{
	memset(stack, 0, sizeof(stack));
	stack[1] = PC(1); /* function 0 has 16 bytes */
	stack[5] = PC(2); /* function 1 has 32 */
}

static void open_three(struct rig *rig)
{
	const struct kp_table_rule rules[] = { frame_of(16), frame_of(32), stop };

	make_stack();
	open_with_table(rig, rules, 3);
}

static bool is_three(const struct kp_ring_record *record)
{
	return record->depth == 3 && record->walk_end == KP_WALK_OUTERMOST &&
	       record->how == KP_HOW_TABLE && record->pc[0] == PC(0) && record->pc[1] == PC(1) &&
	       record->pc[2] == PC(2);
}

Test(agent, code_with_a_table_needs_no_frame_pointers)
{
	struct rig rig;

	open_three(&rig);
	cr_assert(is_three(sample_at(&rig, PC(0), at(0), 0)));
	cr_assert(is_three(sample_at(&rig, PC(0), at(0), 12345)));
}

Test(agent, frame_pointers_alone_are_used_where_that_is_asked_for)
{
	const struct kp_ring_record *record;
	struct rig rig;

	open_three(&rig);
	rig.head->unwind = KP_UNWIND_FP;
	record = sample_at(&rig, PC(0), at(0), 0);
	cr_assert_eq(record->depth, 1);
	cr_assert_eq(record->walk_end, KP_WALK_ROOT);
	cr_assert_eq(record->how, KP_HOW_FP);
}

Test(agent, code_without_a_table_is_walked_by_frame_pointer_unless_tables_alone_are_asked_for)
{
	const struct kp_frame_layout *layout = &rig_arch()->frame;
	const struct kp_ring_record *record;
	uint64_t fp = at(20);
	struct rig rig;

	open_three(&rig);
	/* A frame of other code, called by function 2. */
	*(uint64_t *)(uintptr_t)(fp + (uint64_t)(int64_t)layout->return_off) = PC(2);
	record = sample_at(&rig, 0x5000, at(10), fp);
	cr_assert_eq(record->depth, 2);
	cr_assert_eq(record->pc[1], PC(2));
	cr_assert_eq(record->walk_end, KP_WALK_OUTERMOST);
	cr_assert_eq(record->how, KP_HOW_FP | KP_HOW_TABLE);

	rig.head->unwind = KP_UNWIND_TABLE;
	record = sample_at(&rig, 0x5000, at(10), fp);
	cr_assert_eq(record->depth, 1);
	cr_assert_eq(record->walk_end, KP_WALK_NO_RULE);
	cr_assert(is_three(sample_at(&rig, PC(0), at(0), 0)));
}

Test(agent, modules_come_and_go_while_it_runs)
{
	const uint64_t later = KP_TABLES_DIRECTORY_BYTES + 4096;
	const struct kp_table_rule rules[] = { stop };
	const struct kp_ring_record *record;
	struct rig rig;

	open_three(&rig);
	/* The library has been unloaded. */
	publish(&rig, CODE + 0x100000, KP_TABLES_DIRECTORY_BYTES);
	record = sample_at(&rig, PC(0), at(0), 0);
	cr_assert_eq(record->depth, 1);
	cr_assert_eq(record->how, KP_HOW_FP);
	/* Another one is in its place. */
	put_table(&rig, later, rules, 1);
	publish(&rig, CODE, later);
	record = sample_at(&rig, PC(0), at(0), 0);
	cr_assert_eq(record->depth, 1);
	cr_assert_eq(record->how, KP_HOW_TABLE);
	cr_assert_eq(record->walk_end, KP_WALK_OUTERMOST);
	publish(&rig, CODE, KP_TABLES_DIRECTORY_BYTES);
	cr_assert(is_three(sample_at(&rig, PC(0), at(0), 0)));
}

/* A rule for each register in turn: CFA = register + 16, return address below. */
Test(agent, leaf_may_have_its_frame_in_any_register)
{
	uint64_t registers[32] = { 0 };
	siginfo_t info = rig_timer_info(0, 0);
	struct rig rig;

	make_stack();
	rig_open_with(&rig, CELLS, DEPTH, AREA_BYTES);
	publish(&rig, CODE, KP_TABLES_DIRECTORY_BYTES);
	for (uint32_t number = 0; number < RIG_REGISTERS; number++) {
		const struct kp_table_rule rules[] = {
			{ .cfa = KP_CFA_REG,
			  .reg = (uint8_t)number,
			  .cfa_off = 16,
			  .ra = KP_REG_CFA,
			  .ra_off = -8 },
			frame_of(32),
			stop,
		};
		const struct kp_ring_record *record;

		if (rig_arch() == &kp_arch_riscv64 && number == 0)
			continue; /* zero */
		put_table(&rig, KP_TABLES_DIRECTORY_BYTES, rules, 3);
		for (uint32_t i = 0; i < RIG_REGISTERS; i++)
			registers[i] = 0x100 + i;
		registers[rig_arch()->dwarf.sp] = at(0);
		registers[number] = at(0);
		rig_call_handler_with(&rig, &info, PC(0), registers);
		record = rig_read(&rig);
		cr_assert(record && is_three(record));
	}
}

Test(agent, walk_by_table_ends_at_the_depth_asked_for)
{
	const struct kp_table_rule rules[] = { frame_of(16), frame_of(32), stop };
	const struct kp_ring_record *record;
	struct rig rig;

	make_stack();
	open_with_table(&rig, rules, 3);
	rig.head->depth = 2;
	record = sample_at(&rig, PC(0), at(0), 0);
	cr_assert_eq(record->depth, 2);
	cr_assert_eq(record->walk_end, KP_WALK_DEPTH);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 11;
}

/* Something that may be taken for an address, an offset or a count. */
static uint64_t plausible(uint64_t *state)
{
	uint64_t r = next_random(state);

	switch (r % 8) {
	case 0:
		return next_random(state) << 11 | next_random(state);
	case 1:
		return UINT64_MAX - r % 4096;
	case 2:
		return KP_TABLES_DIRECTORY_BYTES +
		       (r >> 8) % (AREA_BYTES - KP_TABLES_DIRECTORY_BYTES);
	case 3:
		return at((uint32_t)(r >> 8) % WORDS);
	case 4:
		return CODE + (r >> 8) % 0x20000;
	default:
		return (r >> 8) % 1024;
	}
}

/* The directory and the tables hold anything, and so does the stack: each walk ends, unharmed. */
Test(agent, hostile_tables_do_no_harm)
{
	const struct kp_table_rule rules[] = { frame_of(16), frame_of(32), stop };
	int rounds = rig_is_emulated() ? 3000 : 100000;
	struct kp_tables_directory *directory;
	uint64_t state = 1, by_table = 0;
	struct rig rig;

	open_with_table(&rig, rules, 3);
	directory = (struct kp_tables_directory *)(void *)rig.tables;
	for (int round = 0; round < rounds; round++) {
		uint64_t *table = (uint64_t *)(void *)(rig.tables + KP_TABLES_DIRECTORY_BYTES);
		uint64_t *words = round % 3 == 0 ? (uint64_t *)(void *)directory : table;
		size_t room = round % 3 == 0 ? 32 : sizeof(struct made_table) / 8;
		const struct kp_ring_record *record;

		/* Good again, then some words of it wrong. */
		put_table(&rig, KP_TABLES_DIRECTORY_BYTES, rules, 3);
		directory->seq = 0;
		directory->count[0] = directory->count[1] = 0;
		publish(&rig, CODE, KP_TABLES_DIRECTORY_BYTES);
		for (int i = (int)(next_random(&state) % 8); i >= 0; i--)
			words[next_random(&state) % room] = plausible(&state);
		for (uint32_t i = 0; i < WORDS; i++)
			stack[i] = plausible(&state);
		record = sample_at(&rig, CODE + next_random(&state) % 0x400, at(0),
				   plausible(&state));
		cr_assert(record->depth >= 1 && record->depth <= DEPTH);
		by_table += (record->how & KP_HOW_TABLE) != 0;
	}
	cr_assert_gt(by_table, (uint64_t)rounds / 100); /* else it tests nothing */
}

Test(agent, area_of_noise_does_no_harm)
{
	int rounds = rig_is_emulated() ? 5 : 100;
	uint64_t state = 7;
	struct rig rig;

	open_three(&rig);
	for (int round = 0; round < rounds; round++) {
		for (uint64_t i = 0; i < rig.tables_bytes / 8; i++)
			((uint64_t *)(void *)rig.tables)[i] = plausible(&state);
		for (int i = 0; i < 100; i++)
			sample_at(&rig, plausible(&state), plausible(&state), plausible(&state));
	}
}

/* ---- slices ---- */

#define SLICE_BYTES 1024
#define SLICE_WORDS (KP_SLICE_HEAD_WORDS + SLICE_BYTES / 8)

static void open_slices(struct rig *rig)
{
	rig_open_with(rig, CELLS, SLICE_WORDS, 0);
	rig->head->unwind = KP_UNWIND_SLICE;
	rig->head->slice_bytes = SLICE_BYTES;
}

/* Pages that are readable, and one behind them that is not; the words count up from 1. */
static char *half_readable(void)
{
	char *pages = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	for (uint64_t i = 0; i < 8192 / 8; i++)
		((uint64_t *)(void *)pages)[i] = i + 1;
	cr_assert_eq(mprotect(pages + 8192, 4096, PROT_NONE), 0);
	return pages;
}

static const struct kp_ring_slice *slice_at(struct rig *rig, const char *sp, uint32_t *ret_words,
					    uint32_t *ret_how)
{
	const struct kp_ring_record *record =
		sample_at(rig, 0x5000, (uint64_t)(uintptr_t)sp, 0x1234);

	cr_assert(record->how & KP_HOW_SLICE);
	cr_assert_geq(record->depth, KP_SLICE_HEAD_WORDS);
	*ret_words = record->depth - KP_SLICE_HEAD_WORDS;
	*ret_how = record->how;
	return (const struct kp_ring_slice *)(const void *)record->pc;
}

/* The words from sp on, their number as far as that is less than asked for. */
static bool is_copied(struct rig *rig, const char *pages, uint64_t off, uint32_t want)
{
	uint32_t words, how;
	const struct kp_ring_slice *slice = slice_at(rig, pages + off, &words, &how);

	if (words != want || how != (KP_HOW_SLICE | (want == SLICE_BYTES / 8 ? KP_HOW_CUT : 0u)))
		return false;
	for (uint32_t i = 0; i < words; i++)
		if (slice->stack[i] != off / 8 + i + 1)
			return false;
	return slice->pc == 0x5000 && slice->fp == 0x1234 &&
	       slice->sp == (uint64_t)(uintptr_t)(pages + off);
}

Test(agent, slice_has_the_stack_from_sp_on_as_far_as_there_is_memory)
{
	char *pages = half_readable();
	struct rig rig;

	open_slices(&rig);
	cr_assert(is_copied(&rig, pages, 0, SLICE_BYTES / 8));
	cr_assert(is_copied(&rig, pages, 4096 - 16, SLICE_BYTES / 8)); /* across pages */
	cr_assert(is_copied(&rig, pages, 8192 - SLICE_BYTES, SLICE_BYTES / 8));
	cr_assert(is_copied(&rig, pages, 8192 - SLICE_BYTES + 8, SLICE_BYTES / 8 - 1));
	cr_assert(is_copied(&rig, pages, 8192 - 8, 1));
	cr_assert(is_copied(&rig, pages, 8192, 0));
	cr_assert(is_copied(&rig, pages, 4099, SLICE_BYTES / 8)); /* from the word that sp is in */
}

Test(agent, slice_of_nonsense_registers_does_no_harm)
{
	static const uint64_t values[] = { 0, 1, 8, 4096, 1ul << 47, UINT64_MAX - 7, UINT64_MAX };
	struct rig rig;

	open_slices(&rig);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		cr_assert_eq(sample_at(&rig, values[i], values[i], values[i])->depth,
			     KP_SLICE_HEAD_WORDS);
}

Test(agent, slice_has_all_general_registers)
{
	siginfo_t info = rig_timer_info(0, 0);
	const struct kp_ring_record *record;
	const struct kp_ring_slice *slice;
	uint64_t registers[32];
	struct rig rig;

	open_slices(&rig);
	for (uint32_t i = 0; i < 32; i++)
		registers[i] = 0x100 + i;
	rig_call_handler_with(&rig, &info, 0x5000, registers);
	record = rig_read(&rig);
	cr_assert_not_null(record);
	slice = (const struct kp_ring_slice *)(const void *)record->pc;
	for (uint32_t i = rig_arch() == &kp_arch_riscv64; i < RIG_REGISTERS; i++)
		cr_assert_eq(slice->reg[i], 0x100 + i);
	cr_assert_eq(slice->pc, 0x5000);
	cr_assert_eq(slice->sp, 0x100u + rig_arch()->dwarf.sp);
	cr_assert_eq(slice->fp, 0x100u + rig_arch()->dwarf.fp);
	cr_assert_eq(slice->ra, rig_arch() == &kp_arch_x86_64 ? 0 : 0x100u + rig_arch()->dwarf.ra);
}

Test(agent, slice_is_no_longer_than_a_record)
{
	const struct kp_ring_record *record;
	char *pages = half_readable();
	struct rig rig;

	open_slices(&rig);
	rig.head->slice_bytes = 1 << 20;
	cr_assert(is_copied(&rig, pages, 0, SLICE_BYTES / 8));
	/* A ring that has no room for a slice takes what walks give. */
	rig_open_with(&rig, CELLS, KP_SLICE_HEAD_WORDS, 0);
	rig.head->unwind = KP_UNWIND_SLICE;
	rig.head->slice_bytes = SLICE_BYTES;
	record = sample_at(&rig, 0x5000, 0, 0);
	cr_assert_eq(record->how, KP_HOW_FP);
	cr_assert_eq(record->depth, 1);
}
