/* Unit tests of jitdumps: files in memory, as perf's specification has them. */
#include "daemon/watch/jitdump.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kp_err err;
static uint8_t file[65536];
static size_t file_bytes;

static void put(const void *data, size_t bytes)
{
	memcpy(file + file_bytes, data, bytes);
	file_bytes += bytes;
}

static void put32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put64(uint64_t value)
{
	put(&value, sizeof(value));
}

/* A header of so many bytes; the specification lets it grow. */
static void begin(uint32_t magic, uint32_t version, uint32_t bytes)
{
	file_bytes = 0;
	put32(magic);
	put32(version);
	put32(bytes);
	put32(62);
	put32(0);
	put32(1);
	put64(0);
	put64(0);
	while (file_bytes < bytes)
		put("", 1);
}

static void record(uint32_t id, uint32_t bytes)
{
	put32(id);
	put32(16 + bytes);
	put64(0);
}

/* With code of as many bytes as it says, up to 32. */
static void load(uint64_t address, uint64_t size, uint64_t index, const char *name)
{
	size_t len = strlen(name) + 1;
	uint32_t code = size < 32 ? (uint32_t)size : 32;

	record(0, (uint32_t)(40 + len) + code);
	put32(1);
	put32(1);
	put64(address);
	put64(address);
	put64(size);
	put64(index);
	put(name, len);
	for (uint32_t i = 0; i < code; i++)
		put("\x90", 1);
}

static void move(uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	record(1, 48);
	put32(1);
	put32(1);
	put64(to);
	put64(from);
	put64(to);
	put64(size);
	put64(index);
}

struct told {
	char text[1024];
	size_t len, longest;
};

static int take(void *ctx, uint64_t start, uint64_t end, const char *name, struct kp_err *e)
{
	struct told *told = ctx;

	(void)e;
	cr_assert_gt(end, start);
	cr_assert_gt(strlen(name), 0);
	if (strlen(name) > told->longest)
		told->longest = strlen(name);
	told->len += (size_t)snprintf(told->text + told->len, sizeof(told->text) - told->len,
				      "%llx-%llx %.20s;", (unsigned long long)start,
				      (unsigned long long)end, name);
	cr_assert_lt(told->len, sizeof(told->text));
	return 0;
}

static struct told read_bytes(size_t bytes)
{
	struct told told = { .len = 0 };
	FILE *f = fmemopen(file, bytes, "r");

	cr_assert_not_null(f);
	cr_assert_eq(kp_jitdump_read(f, take, &told, &err), 0, "%s", err.text);
	fclose(f);
	return told;
}

Test(jitdump, tells_of_what_is_loaded)
{
	begin(0x4a695444, 1, 40);
	load(0x1000, 32, 0, "JS:*fib /work.js:1:13");
	load(0x2000, 16, 1, "two");
	record(3, 0);
	cr_assert_str_eq(read_bytes(file_bytes).text,
			 "1000-1020 JS:*fib /work.js:1:1;2000-2010 two;");
}

Test(jitdump, passes_over_what_it_has_no_use_for)
{
	begin(0x4a695444, 1, 48);
	record(2, 24); /* debug information */
	put64(0x1000);
	put64(0);
	put64(0);
	record(4, 24); /* for unwinding */
	put64(0);
	put64(0);
	put64(0);
	record(77, 8);
	put64(0);
	load(0x1000, 8, 0, "behind");
	cr_assert_str_eq(read_bytes(file_bytes).text, "1000-1008 behind;");
}

Test(jitdump, gives_moved_code_its_name)
{
	begin(0x4a695444, 1, 40);
	load(0x1000, 8, 5, "first");
	load(0x2000, 8, 6, "second");
	move(0x1000, 0x3000, 8, 5);
	move(0x1000, 0x4000, 8, 7); /* of what nobody has loaded */
	load(0x5000, 8, 8, "third");
	cr_assert_str_eq(read_bytes(file_bytes).text,
			 "1000-1008 first;2000-2008 second;3000-3008 first;5000-5008 third;");
}

Test(jitdump, is_read_as_far_as_it_makes_sense)
{
	size_t whole;

	begin(0x4a695444, 1, 40);
	load(0x1000, 8, 0, "first");
	whole = file_bytes;
	load(0x2000, 8, 1, "second");
	for (size_t bytes = whole; bytes < file_bytes; bytes++)
		cr_assert_eq(strncmp(read_bytes(bytes).text, "1000-1008 first;", 16), 0);
	for (size_t bytes = 1; bytes < whole - 8; bytes++)
		cr_assert_leq(read_bytes(bytes).len, strlen("1000-1008 first;"));
	file_bytes = whole;
	record(0, 0);
	file[whole + 4] = 3; /* smaller than its own header */
	load(0x3000, 8, 2, "behind");
	cr_assert_str_eq(read_bytes(file_bytes).text, "1000-1008 first;");
}

Test(jitdump, has_no_functions_without_name_or_code)
{
	begin(0x4a695444, 1, 40);
	load(0x1000, 8, 0, "");
	load(0x2000, 0, 1, "empty");
	load(UINT64_MAX - 3, 8, 2, "wraps");
	load(0x3000, 8, 3, "fine");
	cr_assert_str_eq(read_bytes(file_bytes).text, "3000-3008 fine;");
}

Test(jitdump, cuts_names_that_are_too_long)
{
	static char name[40000];
	struct told told;

	memset(name, 'x', sizeof(name) - 1);
	begin(0x4a695444, 1, 40);
	load(0x1000, 8, 0, name);
	load(0x2000, 8, 1, "next");
	told = read_bytes(file_bytes);
	cr_assert_eq(told.longest, 16383);
	cr_assert_not_null(strstr(told.text, "2000-2008 next;"));
}

Test(jitdump, is_nothing_if_it_is_something_else)
{
	begin(0x4454694a, 1, 40); /* of the other byte order */
	load(0x1000, 8, 0, "first");
	cr_assert_str_eq(read_bytes(file_bytes).text, "");
	begin(0x4a695444, 2, 40);
	load(0x1000, 8, 0, "first");
	cr_assert_str_eq(read_bytes(file_bytes).text, "");
}

Test(jitdump, is_known_by_its_name)
{
	cr_assert(kp_jitdump_is_name("/tmp/a b/jit-123.dump"));
	cr_assert(kp_jitdump_is_name("jit-1.dump"));
	cr_assert_not(kp_jitdump_is_name("/tmp/jit-123.dump/x"));
	cr_assert_not(kp_jitdump_is_name("/tmp/jit-123.dumps"));
	cr_assert_not(kp_jitdump_is_name("/tmp/jit-.dump"));
	cr_assert_not(kp_jitdump_is_name("/tmp/xjit-1.dump"));
	cr_assert_not(kp_jitdump_is_name("[vdso]"));
}
