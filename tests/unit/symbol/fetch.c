/*
 * What is asked of debuginfod-find, and what becomes of its answers. A script in PATH takes its place:
 * it writes its words to asked, and answers with what lies in answers/KIND-BUILDID. No network.
 */
#include "daemon/symbol/debuginfod.h"
#include "daemon/linux/monotonic.h"

#include "tests/support/test.h"
#include "tests/unit/symbol/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXTURE_ID "6b700102030405060708090a0b0c0d0e0f101112"
#define SECOND UINT64_C(1000000000)

static char dir[256];

static const char *in_dir(const char *name)
{
	static char path[8][512];
	static unsigned next;

	next = (next + 1) % 8;
	snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
	return path[next];
}

static void begin(void)
{
	static const char script[] = "#!/bin/sh\n"
				     "PATH=/usr/bin:/bin\n"
				     "d=${0%/*}\n"
				     "echo \"$@\" >>\"$d/asked\"\n"
				     "[ -e \"$d/answers/$1-$2\" ] || exit 1\n"
				     "echo \"$d/answers/$1-$2\"\n";
	FILE *f;

	fixture_make_dir(dir);
	f = fopen(in_dir("debuginfod-find"), "w");
	cr_assert(f && fputs(script, f) >= 0 && fclose(f) == 0);
	cr_assert_eq(chmod(in_dir("debuginfod-find"), 0700), 0);
	cr_assert_eq(mkdir(in_dir("tmp"), 0700), 0);
	setenv("PATH", dir, 1);
	setenv("TMPDIR", in_dir("tmp"), 1);
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
}

static void end(void)
{
	fixture_remove_tree(dir);
}

/* What was asked for, line by line; "" if nothing was. */
static const char *asked(void)
{
	static char text[8192];
	FILE *f = fopen(in_dir("asked"), "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return text;
}

static void serve(const char *fixture, const char *as)
{
	struct fixture f = fixture_open(fixture);
	char name[128];

	snprintf(name, sizeof(name), "answers/%s", as);
	fixture_copy(&f, in_dir(name));
	free(f.bytes);
}

/* Asks for one address of a module that is in some samples of a thousand. */
static struct kp_frames ask(struct question *q, const struct kp_module_file *file, uint64_t at,
			    uint64_t samples)
{
	static const char *const none[] = { NULL };
	struct kp_symbolizer_options options = { .debug_dirs = none };
	struct kp_frames frames = { 0 };
	struct kp_symbolizer_request request = {
		.file_offset = &at, .count = 1, .ret = &frames, .samples = samples
	};
	struct kp_symbolizer_limits limits = { 0 };
	struct kp_symbolizer_fetch fetch = { .time_ns = 60 * SECOND, .samples = 1000 };
	struct kp_symbolizer_rest rest;
	struct kp_err err;

	cr_assert_eq(kp_symbolizer_create(&options, &q->symbolizer, &err), 0);
	cr_assert_eq(kp_symbolizer_module(q->symbolizer, file, &request.module, &err), 0);
	cr_assert_eq(
		kp_symbolizer_fetch_all(q->symbolizer, &request, 1, &limits, &fetch, &rest, &err),
		0);
	cr_assert_neq(rmdir(in_dir("tmp")), -1, "something is left in TMPDIR");
	cr_assert_eq(mkdir(in_dir("tmp"), 0700), 0);
	return frames;
}

/* A fixture that lies alone, and an address of the unstripped one. */
static struct kp_frames ask_fixture(struct question *q, const char *name, uint64_t samples)
{
	struct fixture whole = fixture_open("inline-dwarf5.so"), f = fixture_open(name);
	struct kp_module_file file = { .path = in_dir("lone.so"), .fd = -1 };
	uint64_t at = fixture_offset(&whole, fixture_value(&whole, "at_innermost"));

	fixture_copy(&f, file.path);
	free(whole.bytes);
	free(f.bytes);
	return ask(q, &file, at, samples);
}

Test(fetch, gives_names_to_a_stripped_file)
{
	struct question q;
	struct kp_frames frames;

	begin();
	serve("inline-split.debug", "debuginfo-" FIXTURE_ID);
	frames = ask_fixture(&q, "inline-stripped.so", 10);
	cr_assert_str_eq(asked(), "debuginfo " FIXTURE_ID "\n");
	cr_assert_eq(frames.count, 3);
	cr_assert_str_eq(frames.frame[0].name, "innermost");
	kp_symbolizer_destroy(q.symbolizer);
	end();
}

Test(fetch, leaves_out_what_less_than_a_hundredth_of_samples_is_in)
{
	struct question q;
	struct kp_frames frames;

	begin();
	serve("inline-split.debug", "debuginfo-" FIXTURE_ID);
	frames = ask_fixture(&q, "inline-stripped.so", 9);
	cr_assert_str_eq(asked(), "");
	cr_assert(frames.count < 3);
	kp_symbolizer_destroy(q.symbolizer);
	end();
}

Test(fetch, does_not_ask_for_what_is_here)
{
	struct question q;

	begin();
	cr_assert_eq(ask_fixture(&q, "inline-dwarf5.so", 1000).count, 3);
	cr_assert_str_eq(asked(), "");
	kp_symbolizer_destroy(q.symbolizer);
	end();
}

Test(fetch, asks_for_the_other_half_of_what_dwz_split)
{
	static const char half[] = "6b702d746573742d6275696c642d69642d303030"; /* kp-test-... */
	struct question q;
	char name[128], line[128];

	begin();
	snprintf(name, sizeof(name), "debuginfo-%s", half);
	snprintf(line, sizeof(line), "debuginfo %s\n", half);
	cr_assert(ask_fixture(&q, "inline-alt-lost.so", 1000).count < 3);
	cr_assert_str_eq(asked(), line);
	kp_symbolizer_destroy(q.symbolizer);
	serve("inline-alt.so", name);
	cr_assert_eq(ask_fixture(&q, "inline-alt-lost.so", 1000).count, 3);
	kp_symbolizer_destroy(q.symbolizer);
	end();
}

Test(fetch, asks_for_a_file_that_is_not_here_and_then_for_its_debug_information)
{
	static const uint8_t id[] = { 0x6b, 0x70, 1,  2,  3,  4,  5,	6,    7,    8,
				      9,    10,	  11, 12, 13, 14, 0x0f, 0x10, 0x11, 0x12 };
	struct fixture whole;
	struct kp_module_file file = {
		.path = "/nowhere/lone.so", .build_id = id, .build_id_len = sizeof(id), .fd = -1
	};
	struct question q;
	struct kp_frames frames;

	begin();
	whole = fixture_open("inline-dwarf5.so");
	serve("inline-stripped.so", "executable-" FIXTURE_ID);
	serve("inline-split.debug", "debuginfo-" FIXTURE_ID);
	frames =
		ask(&q, &file, fixture_offset(&whole, fixture_value(&whole, "at_innermost")), 1000);
	cr_assert_str_eq(asked(), "executable " FIXTURE_ID "\ndebuginfo " FIXTURE_ID "\n");
	cr_assert_eq(frames.count, 3);
	kp_symbolizer_destroy(q.symbolizer);
	free(whole.bytes);
	end();
}

Test(fetch, does_not_take_a_file_with_another_build_id)
{
	struct question q;

	begin();
	serve("names.so", "debuginfo-" FIXTURE_ID);
	cr_assert(ask_fixture(&q, "inline-stripped.so", 1000).count < 3);
	cr_assert_str_eq(asked(), "debuginfo " FIXTURE_ID "\n");
	kp_symbolizer_destroy(q.symbolizer);
	end();
}

Test(fetch, asks_many_questions_each_once)
{
	struct kp_symbolizer_fetch options = { 0 };
	struct kp_debuginfod *d;
	struct kp_err err;
	size_t number, same;
	const char *lines;
	unsigned n = 0;

	begin();
	cr_assert_eq(kp_debuginfod_create(&options, kp_now_ns() + 60 * SECOND, &d, &err), 0);
	for (unsigned i = 0; i < 30; i++) {
		char id[8];
		struct kp_debuginfod_question question = { .id = id, .what = "x" };

		snprintf(id, sizeof(id), "%04x", i);
		cr_assert_eq(kp_debuginfod_ask(d, &question, &number, &err), 0);
		cr_assert_eq(kp_debuginfod_ask(d, &question, &same, &err), 0);
		cr_assert_eq(number, same);
	}
	for (unsigned i = 0; i < 30; i++)
		while (kp_debuginfod_state(d, i) == KP_DEBUGINFOD_PENDING)
			kp_debuginfod_wait(d);
	for (lines = asked(); *lines; lines++)
		n += *lines == '\n';
	cr_assert_eq(n, 30);
	cr_assert_null(kp_debuginfod_dir(d));
	kp_debuginfod_destroy(d);
	end();
}

Test(fetch, says_what_it_cannot_do_without)
{
	struct kp_symbolizer_fetch options = { 0 };
	struct kp_debuginfod *d;
	struct kp_err err;

	begin();
	setenv("DEBUGINFOD_URLS", "  ", 1);
	cr_assert_eq(kp_debuginfod_create(&options, 0, &d, &err), KP_DEBUGINFOD_CANNOT);
	cr_assert(strstr(err.text, "DEBUGINFOD_URLS"));
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	setenv("PATH", in_dir("answers"), 1);
	cr_assert_eq(kp_debuginfod_create(&options, 0, &d, &err), KP_DEBUGINFOD_CANNOT);
	cr_assert(strstr(err.text, "package debuginfod"));
	end();
}
