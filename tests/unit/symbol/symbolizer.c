/*
 * The symbolizer over what compilers make: frames, inlines, lines. The expected answers are read
 * from the fixtures' own labels (fixture/inline.c, fixture/names.cc).
 */
#include "daemon/symbol/symbolizer.h"

#include "tests/support/test.h"
#include "tests/unit/symbol/fixture.h"

#include <elf.h>
#include <sys/auxv.h>

static struct question open_fixture(const struct fixture *f)
{
	struct kp_module_file file = { .path = f->path, .fd = -1 };

	return question_open(&file, NULL);
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void check_inlines(const struct kp_frames *frames, const struct fixture *truth)
{
	cr_assert_eq(frames->count, 3);
	cr_assert_str_eq(frames->frame[0].name, "innermost");
	cr_assert_eq(frames->frame[0].line, fixture_value(truth, "innermost_line"));
	cr_assert(frames->frame[0].inlined);
	cr_assert_str_eq(frames->frame[1].name, "middle");
	cr_assert_eq(frames->frame[1].line, fixture_value(truth, "middle_line"));
	cr_assert(frames->frame[1].inlined);
	cr_assert_str_eq(frames->frame[2].name, "outer_function");
	cr_assert_eq(frames->frame[2].line, fixture_value(truth, "outer_line"));
	cr_assert_eq(frames->frame[2].start_line, fixture_value(truth, "outer_declared"));
	cr_assert(!frames->frame[2].inlined);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(frames->frame[i].file[0], '/');
		cr_assert(ends_with(frames->frame[i].file, "/fixture/inline.c"));
	}
}

/* All that the fixture knows of itself, in whatever way it was compiled. */
static void check_all(const char *name)
{
	struct fixture f = fixture_open(name);
	struct question q = open_fixture(&f);
	uint64_t address = fixture_value(&f, "at_innermost");
	struct kp_frames frames = question_ask(&q, fixture_offset(&f, address));

	cr_assert_eq(frames.address, address);
	check_inlines(&frames, &f);
	frames = question_ask(&q, fixture_offset(&f, fixture_value(&f, "at_plain")));
	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "plain_function");
	cr_assert_str_eq(frames.frame[0].system_name, "plain_function");
	cr_assert_eq(frames.frame[0].line, fixture_value(&f, "plain_line"));
	cr_assert_null(kp_symbolizer_note(q.symbolizer, q.module));
	question_close(&q);
}

Test(symbolizer, reads_dwarf_5)
{
	check_all("inline-dwarf5.so");
}

Test(symbolizer, reads_dwarf_4)
{
	check_all("inline-dwarf4.so");
}

Test(symbolizer, reads_compressed_dwarf)
{
	check_all("inline-compressed.so");
}

Test(symbolizer, maps_by_segment_where_offset_and_address_differ)
{
	struct fixture f = fixture_open("inline-moved");
	uint64_t address = fixture_value(&f, "at_plain");

	cr_assert_neq(fixture_offset(&f, address), address);
	check_all("inline-moved");
}

#ifdef KP_TEST_CLANG
Test(symbolizer, reads_clang_without_aranges)
{
	check_all("inline-clang.so");
}
#endif

#ifdef KP_TEST_LLD
Test(symbolizer, maps_lld_layout)
{
	check_all("inline-lld.so");
}
#endif

Test(symbolizer, names_the_cold_part_after_its_function)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	struct question q = open_fixture(&f);
	struct kp_frames frames;
	uint64_t cold;

	if (fixture_symbol(&f, "cold_function.cold", &cold)) { /* this gcc made one */
		frames = question_ask(&q, fixture_offset(&f, cold));
		cr_assert_eq(frames.count, 1);
		cr_assert_str_eq(frames.frame[0].name, "cold_function");
		cr_assert_eq(frames.frame[0].start_line, fixture_value(&f, "cold_declared"));
	}
	question_close(&q);
}

Test(symbolizer, answers_many_sorted_addresses_at_once)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	struct question q = open_fixture(&f);
	uint64_t offset[5];
	struct kp_frames frames[5];

	offset[0] = 0; /* ELF header */
	offset[1] = offset[2] = fixture_offset(&f, fixture_value(&f, "at_innermost"));
	offset[3] = fixture_offset(&f, fixture_value(&f, "at_plain"));
	offset[4] = UINT64_MAX;
	cr_assert_lt(offset[2], offset[3]);
	cr_assert_eq(kp_symbolizer_resolve(q.symbolizer, q.module, offset, 5, frames, NULL), 0);
	cr_assert_eq(frames[0].count, 0);
	check_inlines(&frames[1], &f);
	check_inlines(&frames[2], &f);
	cr_assert_str_eq(frames[3].frame[0].name, "plain_function");
	cr_assert_eq(frames[4].count, 0);
	question_close(&q);
}

Test(symbolizer, keeps_answers_while_other_modules_are_asked)
{
	struct fixture f = fixture_open("inline-dwarf5.so"), g = fixture_open("names.so");
	struct question q = open_fixture(&f);
	struct kp_module_file other = { .path = g.path, .fd = -1 };
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "at_innermost"));
	uint64_t other_offset = fixture_offset(&g, fixture_value(&g, "at_c_linkage"));
	struct kp_frames first = question_ask(&q, offset), again, frames;
	uint32_t module, same;

	cr_assert_eq(kp_symbolizer_module(q.symbolizer, &other, &module, NULL), 0);
	cr_assert_neq(module, q.module);
	cr_assert_eq(kp_symbolizer_module(q.symbolizer, &other, &same, NULL), 0);
	cr_assert_eq(module, same);
	cr_assert_eq(kp_symbolizer_resolve(q.symbolizer, module, &other_offset, 1, &frames, NULL),
		     0);
	cr_assert_str_eq(frames.frame[0].name, "c_linkage");
	again = question_ask(&q, offset);
	check_inlines(&first, &f);
	check_inlines(&again, &f);
	cr_assert_eq(first.frame[0].name, again.frame[0].name); /* one string, one pointer */
	question_close(&q);
}

static void check_name(const char *fixture, const char *label, const char *name,
		       const char *system_name)
{
	struct fixture f = fixture_open(fixture);
	struct question q = open_fixture(&f);
	struct kp_frames frames = question_ask(&q, fixture_offset(&f, fixture_value(&f, label)));

	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, name);
	cr_assert_str_eq(frames.frame[0].system_name, system_name);
	question_close(&q);
}

static void check_cxx_names(const char *fixture)
{
	check_name(fixture, "at_method", "space::box<int>::twice(int) const",
		   "_ZNK5space3boxIiE5twiceEi");
	check_name(fixture, "at_namespace", "space::operator_user(space::box<int> const&)",
		   "_ZN5space13operator_userERKNS_3boxIiEE");
	check_name(fixture, "at_hidden", "(anonymous namespace)::hidden(int)",
		   "_ZN12_GLOBAL__N_16hiddenEi");
	check_name(fixture, "at_static", "file_local(int)", "_ZL10file_locali");
	check_name(fixture, "at_c_linkage", "c_linkage", "c_linkage");
}

/* gcc gives hidden() and file_local() no linkage name in DWARF: the symbol table has it. */
Test(symbolizer, names_cxx_functions_in_full)
{
	check_cxx_names("names.so");
}

Test(symbolizer, names_cxx_functions_from_the_symbol_table_alone)
{
	check_cxx_names("names-nodebug.so");
}

#ifdef KP_TEST_CLANG
Test(symbolizer, names_cxx_functions_of_clang)
{
	check_cxx_names("names-clang.so");
}
#endif

Test(symbolizer, names_without_dwarf_have_no_lines)
{
	struct fixture f = fixture_open("names-nodebug.so");
	struct question q = open_fixture(&f);
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "at_method"));
	struct kp_frames frames = question_ask(&q, offset);

	cr_assert_eq(frames.count, 1);
	cr_assert_null(frames.frame[0].file);
	cr_assert_eq(frames.frame[0].line, 0);
	question_close(&q);
}

Test(symbolizer, reads_an_image_as_it_reads_a_file)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	struct kp_module_file file = {
		.path = "[vdso]",
		.fd = -1,
		.image = f.bytes,
		.image_size = f.size,
	};
	struct question q = question_open(&file, NULL);
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "at_innermost"));
	struct kp_frames frames = question_ask(&q, offset);

	check_inlines(&frames, &f);
	question_close(&q);
}

Test(symbolizer, reads_the_split_half)
{
	check_all("inline-split-kept.so");
}

Test(symbolizer, does_without_a_missing_split_half)
{
	struct fixture f = fixture_open("inline-split-lost.so");
	struct question q = open_fixture(&f);
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "at_innermost"));
	struct kp_frames frames = question_ask(&q, offset);

	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "outer_function");
	cr_assert_eq(frames.frame[0].line,
		     fixture_value(&f, "innermost_line")); /* the skeleton's */
	question_close(&q);
}

/* libdw would open what .gnu_debugaltlink names, whatever it is. */
Test(symbolizer, does_without_dwarf_whose_other_file_is_missing_and_says_so)
{
	struct fixture f = fixture_open("inline-alt-lost.so");
	struct question q = open_fixture(&f);
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "at_innermost"));
	struct kp_frames frames = question_ask(&q, offset);
	const char *note = kp_symbolizer_note(q.symbolizer, q.module);

	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "outer_function");
	cr_assert_not_null(note);
	cr_assert_not_null(strstr(note, ".gnu_debugaltlink"));
	question_close(&q);
}

#ifdef __x86_64__
/* The kernel's own image, whatever kernel this is; not every emulation has one. */
Test(symbolizer, names_the_vdso)
{
	unsigned char *image = (unsigned char *)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	struct fixture truth = { .path = "[vdso]", .bytes = image };
	struct kp_module_file file = { .path = "[vdso]", .fd = -1, .image = image };
	struct kp_frames frames;
	struct question q;
	uint64_t address;

	if (!image)
		return;
	/* the section headers are its end */
	truth.size = header->e_shoff + (size_t)header->e_shnum * sizeof(Elf64_Shdr);
	file.image_size = truth.size;
	address = fixture_value(&truth, "__vdso_clock_gettime");
	q = question_open(&file, NULL);
	frames = question_ask(&q, fixture_offset(&truth, address));
	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "__vdso_clock_gettime");
	cr_assert_null(kp_symbolizer_note(q.symbolizer, q.module));
	question_close(&q);
}
#endif
