/* CIEs and FDEs as sections have them: encodings, formats, order, and what becomes of overlaps. */
#include "tests/support/test.h"
#include "tests/unit/unwind/framewriter.h"

#include "common/cleanup.h"

#include <dwarf.h>

#define START BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1)
#define OFFSET(n) BYTES(DW_CFA_def_cfa_offset, n)

/* A CIE with that augmentation and its data, which say how FDEs have their addresses. */
static size_t write_cie(struct framewriter *w, struct framewriter_bytes augmentation,
			struct framewriter_bytes data)
{
	size_t entry = framewriter_begin(w);

	framewriter_u32(w, 0);
	framewriter_u8(w, 1);
	framewriter_put(w, augmentation);
	framewriter_put(w, BYTES(1, 0x78, 16));
	framewriter_put(w, data);
	framewriter_put(w, START);
	framewriter_end(w, entry);
	return entry;
}

static void expect_function(const struct framewriter_table *table, uint64_t start, uint64_t end)
{
	cr_assert_eq(table->r, 0, "%s", table->err.text);
	cr_assert_eq(table->stats.fdes, 1);
	cr_assert_eq(table->stats.bad_fdes, 0);
	cr_assert_eq(framewriter_rule(table, start - 1).cfa, KP_CFA_GAP);
	cr_assert_eq(framewriter_rule(table, start).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(table, start).cfa_off, 8);
	cr_assert_eq(framewriter_rule(table, end - 1).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(table, end).cfa, KP_CFA_GAP);
}

/* Writes value in the format of the encoding's low four bits; true if it has that many bytes. */
static void write_encoded(struct framewriter *w, uint8_t format, uint64_t value)
{
	switch (format) {
	case DW_EH_PE_uleb128:
	case DW_EH_PE_sleb128:
		for (int i = 0; i < 9; i++)
			framewriter_u8(w, (uint8_t)(value >> 7 * i) | 0x80);
		framewriter_u8(w, (uint8_t)(value >> 63) ? 0x7f * (format == DW_EH_PE_sleb128) : 0);
		break;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		framewriter_u16(w, (uint16_t)value);
		break;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		framewriter_u32(w, (uint32_t)value);
		break;
	default:
		framewriter_u64(w, value);
		break;
	}
}

/* One FDE whose addresses are of that encoding, relative to base, or to their own place. */
static void build_encoded(uint8_t encoding, uint64_t base, struct framewriter_table *ret)
{
	struct framewriter w = { .machine = EM_X86_64 };
	size_t cie = write_cie(&w, BYTES('z', 'R', 0), BYTES(1, encoding));
	size_t fde = framewriter_begin(&w);

	framewriter_u32(&w, (uint32_t)(w.size - cie));
	if ((encoding & 0x70) == DW_EH_PE_pcrel)
		base = FRAMEWRITER_FRAMES + w.size;
	write_encoded(&w, encoding & 0x0f, FRAMEWRITER_CODE + 0x100 - base);
	write_encoded(&w, encoding & 0x0f, 0x100);
	framewriter_u8(&w, 0);
	framewriter_end(&w, fde);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, ret);
}

Test(entries, have_addresses_in_many_encodings)
{
	static const struct {
		uint8_t encoding;
		uint64_t base;
	} encodings[] = {
		{ DW_EH_PE_absptr, 0 },
		{ DW_EH_PE_udata4, 0 },
		{ DW_EH_PE_udata8, 0 },
		{ DW_EH_PE_uleb128, 0 },
		{ DW_EH_PE_sdata4, 0 },
		{ DW_EH_PE_sdata8, 0 },
		{ DW_EH_PE_sleb128, 0 },
		{ DW_EH_PE_signed, 0 },
		{ DW_EH_PE_pcrel | DW_EH_PE_absptr, 0 },
		{ DW_EH_PE_pcrel | DW_EH_PE_sdata4, 0 },
		{ DW_EH_PE_pcrel | DW_EH_PE_sdata8, 0 },
		{ DW_EH_PE_pcrel | DW_EH_PE_sleb128, 0 },
		{ DW_EH_PE_datarel | DW_EH_PE_sdata4, FRAMEWRITER_GOT },
		{ DW_EH_PE_datarel | DW_EH_PE_sdata8, FRAMEWRITER_GOT },
	};

	for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++) {
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		build_encoded(encodings[i].encoding, encodings[i].base, &table);
		cr_assert_eq(table.r, 0, "%#x", encodings[i].encoding);
		expect_function(&table, 0x100, 0x200);
	}
}

Test(entries, of_encodings_without_meaning_are_counted)
{
	static const uint8_t encodings[] = {
		DW_EH_PE_omit,
		DW_EH_PE_textrel | DW_EH_PE_udata4,
		DW_EH_PE_funcrel | DW_EH_PE_udata4,
		0x05,
		0x0e,
		0x70,
		DW_EH_PE_indirect | DW_EH_PE_udata4,
	};

	for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++) {
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		build_encoded(encodings[i], 0, &table);
		cr_assert_eq(table.r, KP_UNWIND_NONE, "%#x", encodings[i]);
	}
}

Test(entries, have_addresses_in_memory)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie, fde;

	/* The word that is pointed to comes first, as an entry of its own: of no CIE. */
	fde = framewriter_begin(&w);
	framewriter_u32(&w, 0x7000);
	framewriter_u64(&w, FRAMEWRITER_CODE + 0x100);
	framewriter_end(&w, fde);
	cie = write_cie(&w, BYTES('z', 'R', 0), BYTES(1, DW_EH_PE_indirect | DW_EH_PE_udata4));
	fde = framewriter_begin(&w);
	framewriter_u32(&w, (uint32_t)(w.size - cie));
	framewriter_u32(&w, FRAMEWRITER_FRAMES + 8);
	framewriter_u32(&w, 0x100);
	framewriter_u8(&w, 0);
	framewriter_end(&w, fde);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.bad_fdes, 1);
	table.stats.bad_fdes = 0;
	expect_function(&table, 0x100, 0x200);
}

Test(entries, may_be_aligned)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = write_cie(&w, BYTES('z', 'R', 0), BYTES(1, DW_EH_PE_aligned)), fde;

	fde = framewriter_begin(&w);
	framewriter_u32(&w, (uint32_t)(w.size - cie));
	while (w.size % 8)
		framewriter_u8(&w, 0xee);
	framewriter_u64(&w, FRAMEWRITER_CODE + 0x100);
	framewriter_u64(&w, 0x100);
	framewriter_u8(&w, 0);
	framewriter_end(&w, fde);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	expect_function(&table, 0x100, 0x200);
}

/* Absolute addresses, unless the augmentation says otherwise. */
static void build_augmented(struct framewriter_bytes augmentation, struct framewriter_bytes data,
			    bool sized, struct framewriter_table *ret)
{
	struct framewriter w = { .machine = EM_X86_64 };
	size_t cie = write_cie(&w, augmentation, data), fde = framewriter_begin(&w);

	framewriter_u32(&w, (uint32_t)(w.size - cie));
	framewriter_u64(&w, FRAMEWRITER_CODE + 0x100);
	framewriter_u64(&w, 0x100);
	if (sized)
		framewriter_put(&w, BYTES(4, DW_CFA_restore_state, 0, 0, 0)); /* LSDA */
	framewriter_end(&w, fde);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, ret);
}

Test(entries, have_augmentations)
{
	const struct {
		struct framewriter_bytes augmentation, data;
		bool sized;
	} known[] = {
		{ BYTES(0), NO_BYTES, false },
		{ BYTES('e', 'h', 0), NO_BYTES, false }, /* its word is in augmentation's place */
		{ BYTES('z', 0), BYTES(0), true },
		{ BYTES('z', 'L', 0), BYTES(1, DW_EH_PE_pcrel | DW_EH_PE_sdata4), true },
		{ BYTES('z', 'P', 'L', 'R', 0),
		  BYTES(7, DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1, 2, 3, 4,
			DW_EH_PE_sdata4, DW_EH_PE_absptr),
		  true },
		{ BYTES('z', 'R', 'B', 'G', 0), BYTES(1, DW_EH_PE_absptr), true },
		{ BYTES('z', 'R', '?', 'R', 0), BYTES(3, DW_EH_PE_absptr, 1, 2), true },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		if (known[i].augmentation.size == 3 && known[i].augmentation.data[0] == 'e')
			build_augmented(BYTES('e', 'h', 0, 1, 2, 3, 4, 5, 6, 7, 8), NO_BYTES, false,
					&table);
		else
			build_augmented(known[i].augmentation, known[i].data, known[i].sized,
					&table);
		cr_assert_eq(table.r, 0, "%zu", i);
		expect_function(&table, 0x100, 0x200);
	}
}

Test(entries, of_unknown_augmentations_are_counted)
{
	const struct {
		struct framewriter_bytes augmentation, data;
	} unknown[] = {
		{ BYTES('R', 0), BYTES(0) },
		{ BYTES('a', 'r', 'm', 'c', 'c', 0), NO_BYTES },
		{ BYTES('z', 'R', 0), BYTES(0) },
		{ BYTES('z', 'R', 0), BYTES(0x7f, DW_EH_PE_absptr) },
		{ BYTES('z', 'P', 0), BYTES(1, 0x0f) },
	};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		build_augmented(unknown[i].augmentation, unknown[i].data, true, &table);
		cr_assert_eq(table.r, KP_UNWIND_NONE, "%zu", i);
	}
}

Test(entries, need_not_be_sorted)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, START);

	for (unsigned i = 0; i < 50; i++) {
		unsigned n = i * 37 % 50; /* each once */

		framewriter_fde(&w, cie, n * 0x100, 0x100, OFFSET((uint8_t)(n + 1)));
	}
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.fdes, 50);
	for (unsigned n = 0; n < 50; n++) {
		cr_assert_eq(framewriter_rule(&table, n * 0x100).cfa_off, (int32_t)n + 1);
		cr_assert_eq(framewriter_rule(&table, n * 0x100 + 0xff).cfa_off, (int32_t)n + 1);
	}
	cr_assert_eq(table.stats.rows, 1 + 50 + 5); /* gaps: before, behind, in four more pages */
}

Test(entries, that_overlap_hold_up_to_the_next_start)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, START);

	framewriter_fde(&w, cie, 0x100, 0x300, OFFSET(1));
	framewriter_fde(&w, cie, 0x200, 0x100, OFFSET(2)); /* within the first */
	framewriter_fde(&w, cie, 0x500, 0x100, OFFSET(3));
	framewriter_fde(&w, cie, 0x500, 0x200, OFFSET(4)); /* the same start */
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.fdes, 3);
	cr_assert_eq(framewriter_rule(&table, 0x1ff).cfa_off, 1);
	cr_assert_eq(framewriter_rule(&table, 0x200).cfa_off, 2);
	cr_assert_eq(framewriter_rule(&table, 0x2ff).cfa_off, 2);
	cr_assert_eq(framewriter_rule(&table, 0x300).cfa, KP_CFA_GAP);
	cr_assert_eq(framewriter_rule(&table, 0x500).cfa_off, 3);
	cr_assert_eq(framewriter_rule(&table, 0x600).cfa, KP_CFA_GAP);
}

Test(entries, reach_no_further_than_code)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, START);

	framewriter_fde(&w, cie, FRAMEWRITER_CODE_SIZE - 0x10, 0x1000, NO_BYTES);
	framewriter_fde(&w, cie, FRAMEWRITER_CODE_SIZE, 0x10, NO_BYTES); /* no code */
	framewriter_fde(&w, cie, 0x100, 0, NO_BYTES); /* empty */
	framewriter_fde(&w, cie, 0x200, 0x10, BYTES(DW_CFA_advance_loc | 0x10, 0x3f));
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.fdes, 2);
	cr_assert_eq(table.stats.bad_fdes, 0);
	cr_assert_eq(framewriter_rule(&table, FRAMEWRITER_CODE_SIZE - 1).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(&table, 0x20f).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(&table, 0x210).cfa, KP_CFA_GAP);
	cr_assert_eq(table.stats.code_bytes, FRAMEWRITER_CODE_SIZE);
	cr_assert_eq(table.stats.cfa_bytes[KP_CFA_SP], 0x20);
	cr_assert_eq(table.stats.cfa_bytes[KP_CFA_GAP], FRAMEWRITER_CODE_SIZE - 0x20);
}

/* CODE lies 0x1000 into its page: pages begin at 0xf000, 0x1f000, ... of it. */
Test(entries, go_on_across_pages)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, START);

	framewriter_fde(&w, cie, 0x100, 0x2ff00, NO_BYTES);
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.table.page_count, 5);
	cr_assert_eq(framewriter_rule(&table, 0xff).cfa, KP_CFA_GAP);
	for (uint64_t at = 0x100; at < 0x30000; at += 0xf0)
		cr_assert_eq(framewriter_rule(&table, at).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(&table, 0x2ffff).cfa, KP_CFA_SP);
	cr_assert_eq(framewriter_rule(&table, 0x30000).cfa, KP_CFA_GAP);
	cr_assert_eq(framewriter_rule(&table, FRAMEWRITER_CODE_SIZE - 1).cfa, KP_CFA_GAP);
	/* Gap, function; three pages of it; gap in the last of them; one page of gap. */
	cr_assert_eq(table.stats.rows, 7);
}

Test(entries, that_say_the_same_share_rows_and_rules)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;
	size_t cie = framewriter_cie(&w, START);

	framewriter_fde(&w, cie, 0x100, 0x100, NO_BYTES);
	framewriter_fde(&w, cie, 0x200, 0x100, NO_BYTES);
	framewriter_fde(
		&w, cie, 0x300, 0x100,
		BYTES(DW_CFA_advance_loc | 1, DW_CFA_offset | 12, 2, DW_CFA_advance_loc | 1));
	framewriter_build(&w, FRAMEWRITER_SECTIONS, &table);
	cr_assert_eq(table.stats.rows, 3 + 4); /* with the first row of four more pages */
	cr_assert_eq(table.stats.rules, 3); /* with INVALID, which is always there */
}

static void expect_found(const struct framewriter *w, unsigned parts)
{
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	framewriter_build(w, parts, &table);
	expect_function(&table, 0x100, 0x200);
}

static void expect_nothing(const struct framewriter *w, unsigned parts)
{
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	framewriter_build(w, parts, &table);
	cr_assert_eq(table.r, KP_UNWIND_NONE);
}

Test(entries, are_found_by_either_header)
{
	struct framewriter w = { .machine = EM_X86_64 };

	framewriter_fde(&w, framewriter_cie(&w, START), 0x100, 0x100, NO_BYTES);
	expect_found(&w, FRAMEWRITER_SECTIONS);
	expect_found(&w, FRAMEWRITER_EH_FRAME_HDR);
	expect_found(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_EH_FRAME_HDR);
	expect_nothing(&w, 0);
}

/* An object file's end; behind it there may be another's. Without a section's end it is the end. */
Test(entries, go_on_behind_a_zero_length_if_the_section_does)
{
	struct framewriter w = { .machine = EM_X86_64 };

	framewriter_u32(&w, 0);
	framewriter_fde(&w, framewriter_cie(&w, START), 0x100, 0x100, NO_BYTES);
	framewriter_u32(&w, 0);
	expect_found(&w, FRAMEWRITER_SECTIONS);
	expect_nothing(&w, FRAMEWRITER_EH_FRAME_HDR);
}

Test(entries, may_have_long_lengths)
{
	struct framewriter w = { .machine = EM_X86_64 };
	size_t cie = framewriter_cie(&w, START);

	framewriter_u32(&w, UINT32_MAX);
	framewriter_u64(&w, 4 + 16 + 1);
	framewriter_u32(&w, (uint32_t)(w.size - cie));
	framewriter_u32(&w, (uint32_t)(FRAMEWRITER_CODE + 0x100 - (FRAMEWRITER_FRAMES + w.size)));
	framewriter_u32(&w, 0x100);
	framewriter_put(&w, BYTES(0, 0, 0, 0, 0, 0, 0, 0, 0));
	expect_found(&w, FRAMEWRITER_SECTIONS);
}

/* A CIE of .debug_frame, version 4 or less; wide: in the 64-bit format. */
static void write_debug(struct framewriter *w, uint8_t version, bool wide, uint64_t start)
{
	size_t cie = framewriter_begin(w), fde;

	if (wide) {
		memset(w->data + cie, 0xff, 4);
		framewriter_u64(w, version == 4 ? 20 : 18);
		framewriter_u64(w, UINT64_MAX);
	} else {
		framewriter_u32(w, UINT32_MAX);
	}
	framewriter_put(w, BYTES(version, 0));
	if (version == 4)
		framewriter_put(w, BYTES(8, 0));
	framewriter_put(w, BYTES(1, 0x78, 16));
	framewriter_put(w, START);
	if (!wide)
		framewriter_end(w, cie);
	fde = framewriter_begin(w);
	if (wide) {
		memset(w->data + fde, 0xff, 4);
		framewriter_u64(w, 24);
		framewriter_u64(w, cie);
	} else {
		framewriter_u32(w, (uint32_t)cie);
	}
	framewriter_u64(w, start);
	framewriter_u64(w, 0x100);
	if (!wide)
		framewriter_end(w, fde);
}

Test(entries, of_debug_frame_are_read)
{
	static const uint8_t versions[] = { 1, 3, 4 };

	for (size_t i = 0; i < sizeof(versions); i++) {
		struct framewriter w = { .machine = EM_X86_64 };

		w.size = 12; /* padding, so that the CIE is not at 0 */
		write_debug(&w, versions[i], false, FRAMEWRITER_CODE + 0x100);
		expect_found(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG);
		expect_found(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG | FRAMEWRITER_COMPRESSED);
		expect_nothing(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG | FRAMEWRITER_GO);
		w.size = 0;
		write_debug(&w, versions[i], true, FRAMEWRITER_CODE + 0x100);
		expect_found(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG);
	}
}

Test(entries, of_functions_that_the_linker_left_out_are_not)
{
	struct framewriter w = { .machine = EM_X86_64 };

	write_debug(&w, 4, false, 0);
	expect_nothing(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG);
}
