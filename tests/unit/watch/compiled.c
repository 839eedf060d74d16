/* Unit tests of perf maps: of this process, in /tmp, as a JIT compiler would write it. */
#include "daemon/watch/compiled.h"
#include "tests/support/test.h"
#include "tests/unit/profile/raw_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kp_err err;
static char path[64];

static void remove_file(void)
{
	unlink(path);
}

static void write_map(const char *text)
{
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	atexit(remove_file);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
}

/* The symbols that come of these places, a line each: "START-END NAME;". */
static const char *symbols(const uint64_t *place, size_t count)
{
	static char text[8192];
	struct kp_compiled map;
	struct kp_raw_reader reader;
	struct kp_raw_record record;
	struct raw_memory *raw = raw_memory_create();
	size_t len = 0;

	text[0] = '\0';
	kp_compiled_init(&map, getpid(), getpid());
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(kp_compiled_note(&map, place[i], &err), 0);
	cr_assert_eq(kp_compiled_put(&map, &raw->writer, &err), 0, "%s", err.text);
	kp_compiled_deinit(&map);
	cr_assert_eq(kp_raw_reader_init(&reader, raw->words, raw->size, "memory", &err), 0);
	while (kp_raw_read(&reader, &record, &err) == KP_RAW_RECORD) {
		cr_assert_eq(record.type, KP_RAW_SYMBOL);
		cr_assert_eq(record.symbol.pid, (uint32_t)getpid());
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%llx-%llx %.*s;",
					(unsigned long long)record.symbol.start,
					(unsigned long long)record.symbol.end,
					(int)record.symbol.name.len, record.symbol.name.text);
		cr_assert_lt(len, sizeof(text));
	}
	free(raw);
	return text;
}

#define SYMBOLS(...)                                                                               \
	symbols((const uint64_t[]){ __VA_ARGS__ },                                                 \
		sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

Test(perf_map, names_what_was_sampled_and_nothing_else)
{
	write_map("1000 20 first\n1020 10 LazyCompile:*second /a b.js:1\n2000 100 third\n");
	cr_assert_str_eq(SYMBOLS(0x1000, 0x101f, 0x1025, 0x1005, 0x3000),
			 "1000-1020 first;1020-1030 LazyCompile:*second /a b.js:1;");
	cr_assert_str_eq(SYMBOLS(0x2100, 0xfff, 0x1030), "");
	cr_assert_str_eq(SYMBOLS(0), "");
}

Test(perf_map, takes_the_later_of_two_lines)
{
	write_map("1000 100 old\n1000 80 new\n1040 8 newest\n");
	cr_assert_str_eq(SYMBOLS(0x1010), "1000-1080 new;");
	cr_assert_str_eq(SYMBOLS(0x1044, 0x1010, 0x1090),
			 "1000-1100 old;1000-1080 new;1040-1048 newest;");
}

Test(perf_map, passes_over_lines_that_make_no_sense)
{
	write_map("\n1000\n1000 10\n1000 10 \nxyz 10 a\n1000 0 empty\nffffffffffffffff 10 wraps\n"
		  "0x1000 0x10 with prefixes\r\n1ffffffffffffffff 10 too_large\n1010 10 last");
	cr_assert_str_eq(SYMBOLS(0x1005, 0x1015, UINT64_MAX),
			 "1000-1010 with prefixes;1010-1020 last;");
}

Test(perf_map, cuts_lines_that_are_too_long)
{
	static char text[70000];
	const char *got;

	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "1000 10 ", 8);
	memcpy(text + sizeof(text) - 1 - 14, "\n2000 10 next\n", 14);
	write_map(text);
	got = SYMBOLS(0x2000);
	cr_assert_str_eq(got, "2000-2010 next;");
}

Test(perf_map, is_nothing_without_a_file_or_with_one_that_is_none)
{
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	cr_assert_str_eq(SYMBOLS(0x1000), "");
	atexit(remove_file);
	cr_assert_eq(symlink("/etc/passwd", path), 0);
	cr_assert_str_eq(SYMBOLS(0x1000), "");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_str_eq(SYMBOLS(0x1000), "");
}

Test(perf_map, does_not_believe_others)
{
	if (geteuid() != 0)
		cr_skip_test("not root");
	write_map("1000 10 theirs\n");
	cr_assert_eq(chown(path, 65534, 65534), 0);
	cr_assert_str_eq(SYMBOLS(0x1000), "");
}

Test(perf_map, has_a_limit)
{
	struct kp_compiled map;

	kp_compiled_init(&map, getpid(), getpid());
	for (uint64_t i = 1; i < 2 * (uint64_t)KP_COMPILED_PLACES_MAX; i++)
		cr_assert_eq(kp_compiled_note(&map, i * 16, &err), 0);
	cr_assert_eq(map.count, KP_COMPILED_PLACES_MAX);
	kp_compiled_deinit(&map);
}
