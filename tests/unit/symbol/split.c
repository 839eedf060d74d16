/*
 * Split DWARF: a library gives the same frames at every byte of its text whether its units were
 * split or not, wherever their other halves lie. fixture/split.sh makes both.
 */
#include "tests/support/test.h"
#include "tests/unit/symbol/fixture.h"

#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const half[] = { "inline", "rangemap" };

/* Compilers and versions of DWARF, and whether there is a package. */
static const struct {
	const char *name;
	bool package;
} kind[] = {
	{ "split-gcc-4", KP_TEST_DWP },
	{ "split-gcc-5", false }, /* no packager at hand can read it */
#ifdef KP_TEST_CLANG
	{ "split-clang-4", KP_TEST_DWP },
	{ "split-clang-5", KP_TEST_DWP },
#endif
};
#define KINDS (sizeof(kind) / sizeof(kind[0]))

struct answers {
	struct question question;
	struct kp_frames *frames;
	size_t count;
};

/* The library is in DIR/app, what is found otherwise in DIR/debug. */
struct place {
	char dir[256], library[512], debug[512];
};

static struct fixture open_part(const char *name, const char *suffix)
{
	char path[512];

	snprintf(path, sizeof(path), "%s%s", name, suffix);
	return fixture_open(path);
}

static struct place place_make(const char *name)
{
	struct fixture library = open_part(name, "-split.so");
	struct place p;

	fixture_make_dir(p.dir);
	snprintf(p.library, sizeof(p.library), "%s/app/lib.so", p.dir);
	snprintf(p.debug, sizeof(p.debug), "%s/debug", p.dir);
	fixture_copy(&library, p.library);
	return p;
}

static void put(const struct place *p, const struct fixture *f, const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fixture_copy(f, path);
}

static void put_halves(const struct place *p, const char *name, const char *dir)
{
	for (size_t i = 0; i < sizeof(half) / sizeof(half[0]); i++) {
		char from[64], to[64];
		struct fixture f;

		snprintf(from, sizeof(from), "-%s.dwo", half[i]);
		snprintf(to, sizeof(to), "%s/%s.dwo", dir, half[i]);
		f = open_part(name, from);
		put(p, &f, to);
	}
}

/* The section with the code. */
static void find_text(const struct fixture *f, size_t *ret_offset, size_t *ret_size)
{
	Elf *elf;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t strings;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)f->bytes, f->size);
	cr_assert_eq(elf_getshdrstrndx(elf, &strings), 0);
	*ret_size = 0;
	while ((scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &shdr)) {
		if (strcmp(elf_strptr(elf, strings, shdr.sh_name), ".text") == 0) {
			*ret_offset = shdr.sh_offset;
			*ret_size = shdr.sh_size;
		}
	}
	elf_end(elf);
	cr_assert_gt(*ret_size, 0);
}

static struct answers ask_all(const char *path, const char *debug)
{
	struct kp_module_file file = { .path = path, .fd = -1 };
	struct fixture f = fixture_open_path(path);
	struct answers a = { .question = question_open(&file, debug) };
	size_t start;
	uint64_t *offset;

	find_text(&f, &start, &a.count);
	offset = calloc(a.count, sizeof(*offset));
	a.frames = calloc(a.count, sizeof(*a.frames));
	for (size_t i = 0; i < a.count; i++)
		offset[i] = start + i;
	cr_assert_eq(kp_symbolizer_resolve(a.question.symbolizer, a.question.module, offset,
					   a.count, a.frames, NULL),
		     0);
	free(offset);
	free(f.bytes);
	return a;
}

static const char *note_of(const struct answers *a)
{
	return kp_symbolizer_note(a->question.symbolizer, a->question.module);
}

static void answers_free(struct answers *a)
{
	question_close(&a->question);
	free(a->frames);
}

static void check_same(const struct kp_frames *a, const struct kp_frames *b)
{
	cr_assert_eq(a->count, b->count);
	for (uint32_t i = 0; i < a->count; i++) {
		const struct kp_frame *x = &a->frame[i], *y = &b->frame[i];

		cr_assert_str_eq(x->name, y->name);
		cr_assert_str_eq(x->system_name, y->system_name);
		cr_assert_eq(x->line, y->line);
		cr_assert_eq(x->start_line, y->start_line);
		cr_assert_eq(x->inlined, y->inlined);
		cr_assert_eq(x->file == NULL, y->file == NULL);
		if (x->file)
			cr_assert_str_eq(x->file, y->file);
	}
}

/* Everything is as without the split. */
static void check_whole(const struct place *p, const char *name)
{
	struct fixture plain = open_part(name, "-plain.so");
	struct answers truth = ask_all(plain.path, NULL), a = ask_all(p->library, p->debug);
	size_t inlined = 0;

	cr_assert_eq(truth.count, a.count);
	for (size_t i = 0; i < a.count; i++) {
		check_same(&truth.frames[i], &a.frames[i]);
		inlined += truth.frames[i].count > 1;
	}
	cr_assert_gt(inlined, 100);
	cr_assert_null(note_of(&a), "%s", note_of(&a));
	answers_free(&truth);
	answers_free(&a);
}

/* Without the other halves: functions and lines, no inlined functions, and a note. */
static void check_poor(const struct place *p)
{
	struct answers a = ask_all(p->library, p->debug);

	for (size_t i = 0; i < a.count; i++)
		cr_assert_leq(a.frames[i].count, 1);
	cr_assert_not_null(note_of(&a));
	cr_assert_not_null(strstr(note_of(&a), ".dwo"), "%s", note_of(&a));
	answers_free(&a);
}

Test(split, halves_beside_the_file_give_what_there_was_before_the_split)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct place p = place_make(kind[i].name);

		check_poor(&p);
		put_halves(&p, kind[i].name, "app");
		check_whole(&p, kind[i].name);
		fixture_remove_tree(p.dir);
	}
}

Test(split, halves_in_a_directory_that_is_given_are_found)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct place p = place_make(kind[i].name);

		put_halves(&p, kind[i].name, "debug");
		check_whole(&p, kind[i].name);
		fixture_remove_tree(p.dir);
	}
}

Test(split, package_gives_what_there_was_before_the_split)
{
	static const char *const at[] = { "app/lib.so.dwp", "debug/lib.so.dwp" };

	for (size_t i = 0; i < KINDS; i++) {
		for (size_t j = 0; kind[i].package && j < sizeof(at) / sizeof(at[0]); j++) {
			struct fixture package = open_part(kind[i].name, ".dwp");
			struct place p = place_make(kind[i].name);

			put(&p, &package, at[j]);
			check_whole(&p, kind[i].name);
			fixture_remove_tree(p.dir);
		}
	}
}

Test(split, halves_of_another_build_are_left_alone)
{
	struct place p = place_make("split-gcc-4");

	put_halves(&p, "split-gcc-5", "app");
	check_poor(&p);
	put_halves(&p, "split-gcc-4", "debug"); /* the right ones are found behind them */
	check_whole(&p, "split-gcc-4");
	fixture_remove_tree(p.dir);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* The same damage in each run; the frames only have to be there or not. */
static void damage(const struct place *p, struct fixture *f, const char *name)
{
	unsigned char *good = malloc(f->size);
	uint32_t seed = 7;

	memcpy(good, f->bytes, f->size);
	for (unsigned round = 0; round < 150; round++) {
		struct answers a;

		for (uint32_t n = 1 + next_random(&seed) % 16; n > 0; n--)
			f->bytes[next_random(&seed) % f->size] = (unsigned char)next_random(&seed);
		put(p, f, name);
		a = ask_all(p->library, p->debug);
		answers_free(&a);
		memcpy(f->bytes, good, f->size);
	}
	free(good);
}

Test(split, survives_damaged_halves_and_packages)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct place p = place_make(kind[i].name);
		struct fixture f = open_part(kind[i].name, "-rangemap.dwo");

		damage(&p, &f, "app/rangemap.dwo");
		if (kind[i].package) {
			f = open_part(kind[i].name, ".dwp");
			damage(&p, &f, "app/lib.so.dwp");
		}
		fixture_remove_tree(p.dir);
	}
}
