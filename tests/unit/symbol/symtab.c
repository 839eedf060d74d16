/* daemon/symbol/symtab.c and elffile.c, asked through the symbolizer: hand-made ELF files. */
#include "tests/unit/symbol/elfwriter.h"
#include "tests/unit/symbol/fixture.h"

#include "tests/support/test.h"

#define TEXT ELFWRITER_TEXT
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct question open_image(const struct elfwriter_image *image)
{
	struct kp_module_file file = {
		.path = "[image]",
		.fd = -1,
		.image = image->bytes,
		.image_size = image->size,
	};

	return question_open(&file, NULL);
}

/* The name at text + delta, or "". */
static const char *name_at(const struct question *q, uint64_t delta)
{
	struct kp_frames frames = question_ask(q, ELFWRITER_TEXT_OFFSET + delta);

	cr_assert_eq(frames.address, TEXT + delta);
	cr_assert_leq(frames.count, 1);
	return frames.count ? frames.frame[0].name : "";
}

Test(symtab, gives_nothing_in_a_gap_rather_than_a_wrong_name)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "first", TEXT + 0x10, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "second", TEXT + 0x40, 0x20, STB_LOCAL, STT_FUNC, 0 },
		{ "chosen", TEXT + 0x60, 0x8, STB_GLOBAL, STT_GNU_IFUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0xf), "");
	cr_assert_str_eq(name_at(&q, 0x10), "first");
	cr_assert_str_eq(name_at(&q, 0x1f), "first");
	cr_assert_str_eq(name_at(&q, 0x20), "");
	cr_assert_str_eq(name_at(&q, 0x3f), "");
	cr_assert_str_eq(name_at(&q, 0x5f), "second");
	cr_assert_str_eq(name_at(&q, 0x60), "chosen");
	cr_assert_str_eq(name_at(&q, 0x68), "");
	question_close(&q);
}

Test(symtab, bounds_a_symbol_without_size_by_the_next_one_and_by_its_section)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "label", TEXT + 0x10, 0, STB_GLOBAL, STT_NOTYPE, 0 },
		{ "next_label", TEXT + 0x20, 0, STB_LOCAL, STT_NOTYPE, 0 },
		{ "function", TEXT + 0x30, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "last", TEXT + 0xff0, 0, STB_GLOBAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x10), "label");
	cr_assert_str_eq(name_at(&q, 0x1f), "label");
	cr_assert_str_eq(name_at(&q, 0x20), "next_label");
	cr_assert_str_eq(name_at(&q, 0x2f), "next_label");
	cr_assert_str_eq(name_at(&q, 0x30), "function");
	cr_assert_str_eq(name_at(&q, 0x40), "");
	cr_assert_str_eq(name_at(&q, 0xfff), "last");
	question_close(&q);
}

Test(symtab, lets_a_sized_function_keep_the_labels_inside_it)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "copy", TEXT + 0x100, 0x100, STB_GLOBAL, STT_FUNC, 0 },
		{ "loop", TEXT + 0x140, 0, STB_GLOBAL, STT_NOTYPE, 0 },
		{ "entry_inside", TEXT + 0x180, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "last_label", TEXT + 0x1f0, 0, STB_GLOBAL, STT_NOTYPE, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x150), "copy");
	cr_assert_str_eq(name_at(&q, 0x188), "entry_inside");
	cr_assert_str_eq(name_at(&q, 0x190), "copy"); /* not lost behind the inner one */
	cr_assert_str_eq(name_at(&q, 0x1f8), "copy");
	cr_assert_str_eq(name_at(&q, 0x208), ""); /* the label does not reach out of it */
	question_close(&q);
}

Test(symtab, prefers_function_then_global_then_short_then_alphabetical)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "a", TEXT + 0x10, 0x10, STB_LOCAL, STT_FUNC, 0 },
		{ "weak", TEXT + 0x10, 0x10, STB_WEAK, STT_FUNC, 0 },
		{ "global", TEXT + 0x10, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "l", TEXT + 0x20, 0x10, STB_LOCAL, STT_FUNC, 0 },
		{ "w_longer", TEXT + 0x20, 0x10, STB_WEAK, STT_FUNC, 0 },
		{ "longer", TEXT + 0x30, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "short", TEXT + 0x30, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "xb", TEXT + 0x40, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "xa", TEXT + 0x40, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "xc", TEXT + 0x40, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "label", TEXT + 0x50, 0x10, STB_GLOBAL, STT_NOTYPE, 0 },
		{ "function", TEXT + 0x50, 0x10, STB_LOCAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x18), "global");
	cr_assert_str_eq(name_at(&q, 0x28), "w_longer");
	cr_assert_str_eq(name_at(&q, 0x38), "short");
	cr_assert_str_eq(name_at(&q, 0x48), "xa");
	cr_assert_str_eq(name_at(&q, 0x58), "function");
	question_close(&q);
}

Test(symtab, leaves_out_what_is_no_code)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "object", TEXT + 0x10, 0x10, STB_GLOBAL, STT_OBJECT, 0 },
		{ "$x", TEXT + 0x20, 0x10, STB_LOCAL, STT_NOTYPE, 0 },
		{ ".Llabel", TEXT + 0x30, 0x10, STB_LOCAL, STT_NOTYPE, 0 },
		{ "file.c", TEXT + 0x40, 0x10, STB_LOCAL, STT_FILE, 0 },
		{ "absolute", TEXT + 0x50, 0x10, STB_GLOBAL, STT_FUNC, SHN_ABS },
		{ "in_data", TEXT + 0x60, 0x10, STB_GLOBAL, STT_FUNC, ELFWRITER_SECTION_DATA },
		{ "", TEXT + 0x70, 0x10, STB_GLOBAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	for (uint64_t delta = 0; delta < 0x90; delta += 8)
		cr_assert_str_eq(name_at(&q, delta), "");
	question_close(&q);
}

Test(symtab, bounds_absurd_symbols)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "endless", TEXT + 0x10, UINT64_MAX, STB_GLOBAL, STT_FUNC, 0 },
		{ "outside", TEXT + 0x5000, 0x10, STB_GLOBAL, STT_FUNC, 0 },
		{ "before", TEXT - 0x10, 0x2000, STB_GLOBAL, STT_FUNC, 0 },
		{ "highest", UINT64_MAX, UINT64_MAX, STB_GLOBAL, STT_FUNC, 0 },
		{ "no_section", TEXT + 0x8, 0x2000, STB_GLOBAL, STT_FUNC, 77 },
		{ "inside", TEXT + 0x100, 0x10, STB_LOCAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x8), "");
	cr_assert_str_eq(name_at(&q, 0x20), "endless");
	cr_assert_str_eq(name_at(&q, 0x108), "inside");
	cr_assert_str_eq(name_at(&q, 0xfff), "endless");
	question_close(&q);
}

Test(symtab, answers_nothing_where_no_segment_is_and_says_the_offset)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "all", TEXT, 0x1000, STB_GLOBAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	struct question q;
	struct kp_frames frames;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	q = open_image(&image);
	frames = question_ask(&q, ELFWRITER_TEXT_OFFSET - 1);
	cr_assert_eq(frames.count, 0);
	cr_assert_eq(frames.address, ELFWRITER_TEXT_OFFSET - 1);
	frames = question_ask(&q, UINT64_MAX);
	cr_assert_eq(frames.count, 0);
	cr_assert_eq(frames.address, UINT64_MAX);
	question_close(&q);
}

/* Where two segments show one piece of the file, a PC is in the executable one. */
Test(symtab, maps_by_the_executable_segment)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "function", TEXT, 0x1000, STB_GLOBAL, STT_FUNC, 0 },
	};
	struct elfwriter_image image;
	Elf64_Phdr *load = (Elf64_Phdr *)(image.bytes + sizeof(Elf64_Ehdr));
	struct question q;

	elfwriter_write(symbol, LEN(symbol), NULL, &image);
	load[1] = load[0];
	load[1].p_flags = PF_R;
	load[1].p_vaddr = 0x801000;
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x10), "function");
	question_close(&q);
	load[1] = load[0];
	load[0].p_flags = PF_R;
	load[0].p_vaddr = 0x801000;
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x10), "function");
	question_close(&q);
}

Test(symtab, says_when_there_are_no_symbols)
{
	struct elfwriter_image image;
	struct question q;

	elfwriter_write(NULL, 0, NULL, &image);
	q = open_image(&image);
	cr_assert_str_eq(name_at(&q, 0x10), "");
	cr_assert_not_null(kp_symbolizer_note(q.symbolizer, q.module));
	question_close(&q);
}
