/*
 * The table's reader, a step and a walk (common/unwind/) over bytes: a head, a table, and the memory
 * that the walk sees. tests/fuzz/seeds.py writes such inputs.
 *
 * The table comes out of a file, the registers and the memory are the target's: none of it is
 * trusted, and nothing of it may make the walk read outside of the table, write more frames than it
 * was given room for, or go on for long.
 */
#include "tests/fuzz/fuzz.h"

#include "common/unwind/walk.h"

#include <stdlib.h>
#include <string.h>

/* Where the memory is: once as the stack, once as code, so that restorers can be found there. */
#define STACK UINT64_C(0x7ffe00000000)
#define TEXT UINT64_C(0x400000)
#define FRAMES 64

struct head {
	uint8_t cpu; /* modulo 3 */
	uint8_t mode; /* modulo 4; + 4: leaf registers are known */
	uint16_t table_bytes; /* of what follows; the rest is memory */
	uint32_t max; /* modulo FRAMES, + 1 */
	struct kp_regs regs;
};

struct input {
	struct head head;
	struct kp_table table;
	int has_table;
	const uint8_t *memory;
	size_t memory_bytes;
	uint32_t reads;
};

static void check(int condition)
{
	if (!condition)
		abort();
}

static int read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct input *input = ctx;
	uint64_t off = addr >= STACK ? addr - STACK : addr - TEXT;

	input->reads++;
	check(addr % 8 == 0);
	if (off >= input->memory_bytes || input->memory_bytes - off < 8)
		return -1;
	memcpy(ret, input->memory + off, 8);
	return 0;
}

static int find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	const struct input *input = ctx;

	if (!input->has_table || pc < TEXT)
		return -1;
	return kp_table_find(&input->table, pc - TEXT, ret);
}

static int leaf_register(void *ctx, uint32_t dwarf_number, uint64_t *ret)
{
	const struct input *input = ctx;

	if (dwarf_number > 32)
		return -1;
	*ret = input->head.regs.sp + 8ull * dwarf_number;
	return 0;
}

static void walk(struct input *input, const struct kp_arch *arch)
{
	uint32_t max = input->head.max % FRAMES + 1, n = 0, how = ~0u;
	uint64_t *pc = malloc(max * sizeof(*pc));
	const struct kp_walk walk = {
		.arch = arch,
		.mode = (enum kp_unwind_mode)(input->head.mode % 4),
		.read_word = read_word,
		.read_ctx = input,
		.find_rule = find_rule,
		.find_ctx = input,
		.leaf_register = input->head.mode & 4 ? leaf_register : NULL,
		.leaf_ctx = input,
	};
	enum kp_walk_end end;

	check(pc != NULL);
	end = kp_walk(&walk, input->head.regs, pc, max, &n, &how);
	check(end > KP_WALK_ON && end < KP_WALK_END_COUNT);
	check(n >= 1 && n <= max && (end != KP_WALK_DEPTH || n == max));
	check(!(how & ~(uint32_t)KP_HOW_ALL));
	/* A step reads four words of a signal frame at most, and a restorer in three more. */
	check(input->reads <= (n + 1) * 8);
	for (uint32_t i = 1; i < n; i++)
		check(pc[i] >= KP_CODE_MIN);
	free(pc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kp_arch *const arches[] = {
		&kp_arch_x86_64,
		&kp_arch_aarch64,
		&kp_arch_riscv64,
	};
	struct input input = { .reads = 0 };
	const struct kp_arch *arch;
	size_t table_bytes;
	uint8_t *table;

	if (size < sizeof(input.head))
		return 0;
	memcpy(&input.head, data, sizeof(input.head));
	data += sizeof(input.head);
	size -= sizeof(input.head);
	arch = arches[input.head.cpu % 3];

	/* Memory of its own, of exactly that size and aligned. */
	table_bytes = input.head.table_bytes < size ? input.head.table_bytes : size;
	table = malloc(table_bytes ? table_bytes : 1);
	check(table != NULL);
	memcpy(table, data, table_bytes);
	input.has_table = kp_table_open(&input.table, table, table_bytes, arch->elf_machine) == 0;
	input.memory = data + table_bytes;
	input.memory_bytes = size - table_bytes;
	walk(&input, arch);
	free(table);
	return 0;
}
