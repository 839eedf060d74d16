/*
 * What tables of Go programs say: which code keeps frame pointers, and which functions of the
 * runtime go from one stack to another. Symbols come first in the section, and their names behind
 * them; the names are read as symbols as well, and say nothing.
 */
#include "tests/support/test.h"
#include "tests/unit/unwind/framewriter.h"

#include "common/cleanup.h"

#include <dwarf.h>
#include <string.h>

struct symbol {
	const char *name;
	uint64_t start, size; /* from FRAMEWRITER_CODE */
};

#define PARTS (FRAMEWRITER_SECTIONS | FRAMEWRITER_GO | FRAMEWRITER_SYMBOLS)

static void build(uint16_t machine, unsigned parts, const struct symbol *symbol, size_t n,
		  struct framewriter_table *ret)
{
	struct framewriter w = { .machine = machine };
	size_t names = n * sizeof(Elf64_Sym);

	for (size_t i = 0; i < n; i++) {
		Elf64_Sym entry = {
			.st_name = (uint32_t)names,
			.st_value = FRAMEWRITER_CODE + symbol[i].start,
			.st_size = symbol[i].size,
		};

		framewriter_put(&w, (struct framewriter_bytes){ (void *)&entry, sizeof(entry) });
		names += strlen(symbol[i].name) + 1;
	}
	for (size_t i = 0; i < n; i++)
		framewriter_put(&w, (struct framewriter_bytes){ (const void *)symbol[i].name,
								strlen(symbol[i].name) + 1 });
	framewriter_build(&w, parts, ret);
}
#define BUILD(machine, parts, symbols, ret)                                                        \
	build(machine, parts, symbols, sizeof(symbols) / sizeof(symbols[0]), ret)

static uint8_t cfa_at(const struct framewriter_table *table, uint64_t off)
{
	return framewriter_rule(table, off).cfa;
}

static const struct symbol program[] = {
	{ "runtime.text", 0x1000, 0 },
	{ "runtime.etext", 0x30000, 0 },
	{ "main.main", 0x20000, 0x80 },
	{ "runtime.mcall", 0x2000, 0x60 },
	{ "runtime.systemstack", 0x9000, 0x40 },
	{ "runtime.systemstack.abi0", 0x1f000, 0x100 },
	{ "runtime.systemstack_switch", 0x8000, 0x40 },
	{ "runtime.goexit.abi0", 0x2fff0, 0x10 },
	{ "runtime.duffzero", 0x3000, 0x140 },
};

Test(go, code_keeps_frame_pointers)
{
	static const uint16_t machines[] = { EM_X86_64, EM_AARCH64 };

	for (size_t i = 0; i < 2; i++) {
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		BUILD(machines[i], PARTS, program, &table);
		cr_assert_eq(table.r, 0);
		cr_assert_eq(cfa_at(&table, 0xfff), KP_CFA_GAP);
		cr_assert_eq(cfa_at(&table, 0x1000), KP_CFA_CHAIN);
		cr_assert_eq(cfa_at(&table, 0x8010), KP_CFA_CHAIN);
		cr_assert_eq(cfa_at(&table, 0x20010), KP_CFA_CHAIN);
		cr_assert_eq(cfa_at(&table, 0x30000), KP_CFA_GAP);
		cr_assert_eq(cfa_at(&table, FRAMEWRITER_CODE_SIZE - 1), KP_CFA_GAP);
	}
}

Test(go, functions_that_change_stacks_are_known_by_name)
{
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	BUILD(EM_X86_64, PARTS, program, &table);
	cr_assert_eq(cfa_at(&table, 0x1fff), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, 0x2000), KP_CFA_LEFT);
	cr_assert_eq(cfa_at(&table, 0x205f), KP_CFA_LEFT);
	cr_assert_eq(cfa_at(&table, 0x2060), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, 0x9000), KP_CFA_SWITCH);
	cr_assert_eq(cfa_at(&table, 0x1f000), KP_CFA_SWITCH);
	cr_assert_eq(cfa_at(&table, 0x1f0ff), KP_CFA_SWITCH);
	cr_assert_eq(cfa_at(&table, 0x1f100), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, 0x2ffff), KP_CFA_STOP);
}

/* Their callers make the frame, below the stack pointer. */
Test(go, duff_is_called_with_a_frame_below_sp_on_x86_64)
{
	_cleanup_(framewriter_table_deinit) struct framewriter_table table, other;
	struct kp_table_rule rule;

	BUILD(EM_X86_64, PARTS, program, &table);
	rule = framewriter_rule(&table, 0x3000);
	cr_assert_eq(rule.cfa, KP_CFA_SP);
	cr_assert_eq(rule.cfa_off, 8);
	cr_assert_eq(rule.ra_off, -8);
	cr_assert_eq(rule.fp, KP_REG_CFA);
	cr_assert_eq(rule.fp_off, -16);
	BUILD(EM_AARCH64, PARTS, program, &other);
	cr_assert_eq(cfa_at(&other, 0x3000), KP_CFA_CHAIN);
}

Test(go, other_programs_have_no_such_rules)
{
	static const struct symbol no_text[] = { { "runtime.mcall", 0x2000, 0x60 } };
	_cleanup_(framewriter_table_deinit) struct framewriter_table other, none, riscv64;

	BUILD(EM_X86_64, FRAMEWRITER_SECTIONS | FRAMEWRITER_SYMBOLS, program, &other);
	cr_assert_eq(other.r, KP_UNWIND_NONE);
	BUILD(EM_X86_64, PARTS, no_text, &none);
	cr_assert_eq(none.r, KP_UNWIND_NONE);
	/* Go keeps no frame pointers there. */
	BUILD(EM_RISCV, PARTS, program, &riscv64);
	cr_assert_eq(riscv64.r, KP_UNWIND_NONE);
}

Test(go, rules_lie_within_code_and_apart)
{
	static const struct symbol wild[] = {
		{ "runtime.text", 0x1000, 0 },
		{ "runtime.etext", (uint64_t)2 * FRAMEWRITER_CODE_SIZE, 0 },
		{ "runtime.mcall", 0x800, 0x1000 }, /* begins before it */
		{ "runtime.systemstack", 0x1400, 0x1000 }, /* within the other */
		{ "runtime.goexit", FRAMEWRITER_CODE_SIZE - 0x10, 0x100 }, /* ends behind it */
		{ "runtime.mstart", 0x5000, UINT64_MAX - 0x100 }, /* goes round */
		{ "runtime.rt0_go", 0x6000, 0 },
		{ "runtime.sigtramp", (uint64_t)FRAMEWRITER_CODE_SIZE, 0x10 },
	};
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	BUILD(EM_X86_64, PARTS, wild, &table);
	cr_assert_eq(table.r, 0);
	cr_assert_eq(cfa_at(&table, 0xfff), KP_CFA_GAP);
	cr_assert_eq(cfa_at(&table, 0x1000), KP_CFA_LEFT);
	cr_assert_eq(cfa_at(&table, 0x17ff), KP_CFA_LEFT);
	cr_assert_eq(cfa_at(&table, 0x1800), KP_CFA_SWITCH);
	cr_assert_eq(cfa_at(&table, 0x23ff), KP_CFA_SWITCH);
	cr_assert_eq(cfa_at(&table, 0x2400), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, 0x5000), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, 0x6000), KP_CFA_CHAIN);
	cr_assert_eq(cfa_at(&table, FRAMEWRITER_CODE_SIZE - 1), KP_CFA_STOP);
}

/* As many as there are names for would fit; a file may have more. */
Test(go, too_many_symbols_are_left_out)
{
	struct symbol many[102] = { { "runtime.text", 0, 0 }, { "runtime.etext", 0x10000, 0 } };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	unsigned found = 0;

	for (uint64_t i = 2; i < 102; i++)
		many[i] = (struct symbol){ "gogo", 0x100 * i, 0x10 };
	BUILD(EM_X86_64, PARTS, many, &table);
	cr_assert_eq(table.r, 0);
	for (uint64_t i = 2; i < 102; i++)
		found += cfa_at(&table, 0x100 * i) == KP_CFA_SWITCH;
	cr_assert_eq(found, 48);
}

Test(go, names_that_are_cut_off_are_none)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	Elf64_Sym entry = { .st_name = sizeof(entry), .st_value = FRAMEWRITER_CODE };

	framewriter_put(&w, (struct framewriter_bytes){ (void *)&entry, sizeof(entry) });
	framewriter_put(&w, (struct framewriter_bytes){ (const void *)"runtime.text", 12 });
	framewriter_build(&w, PARTS, &table);
	cr_assert_eq(table.r, KP_UNWIND_NONE);
	entry.st_name = UINT32_MAX;
	w.size = 0;
	framewriter_put(&w, (struct framewriter_bytes){ (void *)&entry, sizeof(entry) });
	framewriter_build(&w, PARTS, &table);
	cr_assert_eq(table.r, KP_UNWIND_NONE);
}
