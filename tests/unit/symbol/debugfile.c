/*
 * Which files of a module are taken and which are not: build ids, pinned descriptors, separate
 * debug files. The fixture is one shared library, its stripped copy and its debug file; each test
 * lays them out in a directory of its own.
 */
#include "tests/support/test.h"
#include "tests/unit/symbol/elfwriter.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* As given to the linker in meson.build. */
static const uint8_t build_id[20] = { 0x6b, 0x70, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
				      0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12 };

#define DEBUG_PATH ".build-id/6b/700102030405060708090a0b0c0d0e0f101112.debug"
#define DEBUG_NAME "inline-split.debug" /* what .gnu_debuglink of the stripped copy says */

struct place {
	struct fixture full, stripped, debug;
	char dir[256];
	char module[512];
	uint64_t offset; /* of an instruction in three frames */
};

static struct place place_open(void)
{
	struct place p = {
		.full = fixture_open("inline-dwarf5.so"),
		.stripped = fixture_open("inline-stripped.so"),
		.debug = fixture_open(DEBUG_NAME),
	};

	fixture_make_dir(p.dir);
	snprintf(p.module, sizeof(p.module), "%s/app/lib.so", p.dir);
	fixture_copy(&p.stripped, p.module);
	p.offset = fixture_offset(&p.full, fixture_value(&p.full, "at_innermost"));
	return p;
}

static void put(const struct place *p, const struct fixture *f, const char *name)
{
	char path[2048];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fixture_copy(f, path);
}

/* Asks for the module at path, whose debug directory is DIR/debug. */
static struct kp_frames ask(const struct place *p, const struct kp_module_file *file,
			    struct question *q)
{
	char dir[512];

	snprintf(dir, sizeof(dir), "%s/debug", p->dir);
	*q = question_open(file, dir);
	return question_ask(q, p->offset);
}

/* Whether the three frames and their lines are there. */
static bool finds_debug_file(const struct place *p)
{
	struct kp_module_file file = { .path = p->module, .fd = -1 };
	struct question q;
	struct kp_frames frames = ask(p, &file, &q);
	bool found = frames.count == 3 &&
		     frames.frame[0].line == fixture_value(&p->full, "innermost_line");

	cr_assert_geq(frames.count, 1);
	cr_assert_eq(found, kp_symbolizer_note(q.symbolizer, q.module) == NULL);
	question_close(&q);
	return found;
}

/* The module is at no place that it was at; its build id is known. */
static uint32_t frames_from_elsewhere(const struct place *p, const uint8_t *id)
{
	struct kp_module_file file = {
		.path = "/no/such/lib.so", .fd = -1, .build_id = id, .build_id_len = 20
	};
	struct question q;
	struct kp_frames frames = ask(p, &file, &q);
	uint32_t count = frames.count;

	cr_assert_eq(count == 0, kp_symbolizer_note(q.symbolizer, q.module) != NULL);
	question_close(&q);
	return count;
}

Test(debugfile, takes_the_module_itself_from_elsewhere)
{
	static const char *const name[] = {
		"debug/no/such/lib.so",
		"debug/lib.so",
		"debug/.build-id/6b/700102030405060708090a0b0c0d0e0f101112",
	};
	uint8_t other[20];

	memcpy(other, build_id, sizeof(other));
	other[19]++;
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		struct place p = place_open();

		cr_assert_eq(frames_from_elsewhere(&p, build_id), 0);
		put(&p, &p.full, name[i]);
		cr_assert_eq(frames_from_elsewhere(&p, build_id), 3, "%s", name[i]);
		cr_assert_eq(frames_from_elsewhere(&p, other), 0, "another build: %s", name[i]);
		fixture_remove_tree(p.dir);
	}
}

/* Below another root, where the module and its debug file have the paths that they had. */
static struct kp_frames ask_below(const struct place *p, struct kp_module_file *file,
				  struct question *q)
{
	char root[512];
	struct kp_symbolizer_options options = { .sysroot = root };

	snprintf(root, sizeof(root), "%s/root", p->dir);
	file->path = p->module;
	file->fd = -1;
	cr_assert_eq(kp_symbolizer_create(&options, &q->symbolizer, NULL), 0);
	cr_assert_eq(kp_symbolizer_module(q->symbolizer, file, &q->module, NULL), 0);
	return question_ask(q, p->offset);
}

static void put_below(const struct place *p, const struct fixture *f)
{
	char name[1024];

	snprintf(name, sizeof(name), "root%s", p->module);
	put(p, f, name);
}

Test(debugfile, another_root_is_looked_at_first)
{
	struct place p = place_open(); /* at its own path it is stripped */
	struct kp_module_file file = { .build_id = build_id, .build_id_len = 20 };
	struct question q;
	struct kp_frames frames = ask_below(&p, &file, &q);

	cr_assert_eq(frames.count, 1);
	question_close(&q);
	put_below(&p, &p.full);
	frames = ask_below(&p, &file, &q);
	cr_assert_eq(frames.count, 3);
	cr_assert_null(kp_symbolizer_note(q.symbolizer, q.module));
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, of_another_root_is_found_by_build_id)
{
	struct place p = place_open();
	struct kp_module_file file = { .build_id = build_id, .build_id_len = 20 };
	struct question q;
	struct kp_frames frames;

	put_below(&p, &p.stripped);
	put(&p, &p.debug, "root/usr/lib/debug/" DEBUG_PATH);
	frames = ask_below(&p, &file, &q);
	cr_assert_eq(frames.count, 3);
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, another_root_gives_nothing_of_another_build)
{
	struct place p = place_open();
	struct fixture other = fixture_open("names.so");
	struct kp_module_file file = { .build_id = build_id, .build_id_len = 20 };
	struct question q;
	struct kp_frames frames;

	put_below(&p, &other);
	cr_assert_eq(unlink(p.module), 0);
	frames = ask_below(&p, &file, &q);
	cr_assert_eq(frames.count, 0);
	cr_assert_not_null(strstr(kp_symbolizer_note(q.symbolizer, q.module), "another build"));
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, with_another_root_nothing_is_taken_without_a_build_id)
{
	struct place p = place_open();
	struct kp_module_file file = { .path = NULL };
	struct question q;
	struct kp_frames frames;

	put_below(&p, &p.full);
	frames = ask_below(&p, &file, &q); /* neither there nor at this machine's path */
	cr_assert_eq(frames.count, 0);
	cr_assert_not_null(strstr(kp_symbolizer_note(q.symbolizer, q.module), "no build id"));
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, takes_a_stripped_module_and_its_debug_file_from_one_directory)
{
	struct place p = place_open();

	put(&p, &p.stripped, "debug/lib.so");
	put(&p, &p.debug, "debug/" DEBUG_NAME);
	cr_assert_eq(frames_from_elsewhere(&p, build_id), 3);
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_found_by_build_id)
{
	struct place p = place_open();

	cr_assert(!finds_debug_file(&p));
	put(&p, &p.debug, "debug/" DEBUG_PATH);
	cr_assert(finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, that_is_missing_leaves_exported_names_and_a_note)
{
	struct place p = place_open();
	struct kp_module_file file = { .path = p.module, .fd = -1 };
	struct question q;
	struct kp_frames frames = ask(&p, &file, &q);
	const char *note = kp_symbolizer_note(q.symbolizer, q.module);

	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "outer_function");
	cr_assert_null(frames.frame[0].file);
	cr_assert_not_null(note);
	cr_assert_not_null(strstr(note, p.module));
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_found_beside_the_module_by_name)
{
	struct place p = place_open();

	put(&p, &p.debug, "app/" DEBUG_NAME);
	cr_assert(finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_found_in_dot_debug_by_name)
{
	struct place p = place_open();

	put(&p, &p.debug, "app/.debug/" DEBUG_NAME);
	cr_assert(finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_found_below_the_debug_directory_by_name)
{
	struct place p = place_open();
	char name[1024];

	snprintf(name, sizeof(name), "debug/%s/app/" DEBUG_NAME, p.dir);
	put(&p, &p.debug, name);
	cr_assert(finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_turned_down_with_another_crc)
{
	struct place p = place_open();
	struct fixture changed = p.debug;

	changed.bytes[changed.size - 1] ^= 1; /* in the section headers' last field */
	put(&p, &changed, "app/" DEBUG_NAME);
	cr_assert(!finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, is_turned_down_with_another_build_id)
{
	struct place p = place_open();
	struct fixture other = fixture_open("names.so");

	put(&p, &other, "debug/" DEBUG_PATH);
	cr_assert(!finds_debug_file(&p));
	fixture_remove_tree(p.dir);
}

Test(debugfile, that_is_a_fifo_is_not_opened)
{
	struct place p = place_open();
	char path[2048];

	snprintf(path, sizeof(path), "%s/app/" DEBUG_NAME, p.dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert(!finds_debug_file(&p)); /* would wait for a writer for ever */
	fixture_remove_tree(p.dir);
}

Test(debugfile, module_of_another_build_gives_nothing_and_says_why)
{
	struct place p = place_open();
	uint8_t ran[20];
	struct kp_module_file file = {
		.path = p.module, .fd = -1, .build_id = ran, .build_id_len = 20
	};
	struct kp_frames frames;
	struct question q;
	const char *note;

	memcpy(ran, build_id, 20);
	ran[19] ^= 0xff;
	frames = ask(&p, &file, &q);
	cr_assert_eq(frames.count, 0);
	cr_assert_eq(frames.address, p.offset);
	note = kp_symbolizer_note(q.symbolizer, q.module);
	cr_assert_not_null(note);
	cr_assert_not_null(strstr(note, p.module));
	cr_assert_not_null(strstr(note, "another build"));
	cr_assert_not_null(strstr(note, "6b700102030405060708090a0b0c0d0e0f101112"));
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, module_of_the_same_build_is_taken)
{
	struct place p = place_open();
	struct kp_module_file file = {
		.path = p.module,
		.fd = -1,
		.build_id = build_id,
		.build_id_len = 20,
	};
	struct question q;
	struct kp_frames frames = ask(&p, &file, &q);

	cr_assert_eq(frames.count, 1);
	question_close(&q);
	fixture_remove_tree(p.dir);
}

Test(debugfile, pinned_module_outlives_its_path)
{
	struct place p = place_open();
	struct fixture other = fixture_open("names.so");
	struct kp_module_file file = { .path = p.module, .build_id = build_id, .build_id_len = 20 };
	struct kp_frames frames;
	struct question q;

	file.fd = open(p.module, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(file.fd, 0);
	cr_assert_eq(unlink(p.module), 0);
	fixture_copy(&other, p.module); /* an upgrade */
	frames = ask(&p, &file, &q);
	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frame[0].name, "outer_function");
	question_close(&q);
	cr_assert_geq(fcntl(file.fd, F_GETFD), 0); /* it was only borrowed */
	close(file.fd);
	fixture_remove_tree(p.dir);
}

Test(debugfile, module_that_is_missing_or_no_elf_file_says_so)
{
	static const char *const path[] = { "/nonexistent/lib.so", "/etc/passwd", "/dev/null", "/",
					    "relative.so",	   "[stack]",	  "" };

	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		struct kp_module_file file = { .path = path[i], .fd = -1 };
		struct question q = question_open(&file, NULL);
		struct kp_frames frames = question_ask(&q, 0x1000);
		const char *note = kp_symbolizer_note(q.symbolizer, q.module);

		cr_assert_eq(frames.count, 0);
		cr_assert_eq(frames.address, 0x1000);
		cr_assert_not_null(note);
		cr_assert_eq(strncmp(note, path[i], strlen(path[i])), 0);
		question_close(&q);
	}
}
