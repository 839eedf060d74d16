/* Unit tests of the modules that a target has mapped, on this process; records go to memory. */
#include "daemon/watch/modules.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static _Alignas(8) uint8_t file[4 << 20];
static size_t size;
static struct kp_err err;
static struct kp_modules modules;

static int put(void *ctx, const void *data, size_t n, struct kp_err *e)
{
	(void)ctx;
	if (n > sizeof(file) - size)
		return kp_fail(e, KP_ESYSTEM, "full");
	memcpy(file + size, data, n);
	size += n;
	return 0;
}

static struct kp_raw_writer writer = { .write = put };

static void begin(void)
{
	struct kp_pins *pins;

	size = 0;
	cr_assert_eq(kp_pins_create(&pins, &err), 0);
	cr_assert_eq(kp_raw_put_header(&writer, &err), 0);
	kp_modules_init(&modules, getpid(), &writer, pins);
}

static size_t scan(void)
{
	size_t found;

	cr_assert_eq(kp_modules_scan(&modules, &found, &err), 0);
	return found;
}

/* The MODULE record that has the address, the last one of several; false if there is none. */
static bool find(const void *address, struct kp_raw_module *ret)
{
	struct kp_raw_reader reader;
	struct kp_raw_record record;
	bool found = false;

	cr_assert_eq(kp_raw_reader_init(&reader, file, size, "memory", &err), 0);
	while (kp_raw_read(&reader, &record, &err) == KP_RAW_RECORD) {
		uint64_t at = (uint64_t)(uintptr_t)address;

		if (record.type != KP_RAW_MODULE || at < record.module.start ||
		    at >= record.module.end)
			continue;
		*ret = record.module;
		found = true;
	}
	return found;
}

static bool ends_with(struct kp_raw_string s, const char *tail)
{
	size_t n = strlen(tail);

	return s.len >= n && memcmp(s.text + s.len - n, tail, n) == 0;
}

static void *map_code(const char *path, void *where)
{
	int fd = open(path, O_RDWR | O_CREAT, 0700);
	void *data;

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	data = mmap(where, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | (where ? MAP_FIXED : 0), fd,
		    0);
	cr_assert_neq(data, MAP_FAILED);
	close(fd);
	return data;
}

Test(modules, own_code_and_the_vdso_are_written)
{
	struct kp_raw_module module;
	struct kp_raw_record record;
	struct kp_raw_reader reader;
	bool image = false;

	begin();
	cr_assert_gt(scan(), 2);
	cr_assert(find((void *)(uintptr_t)scan, &module));
	cr_assert(ends_with(module.path, "test-watch-modules"));
	cr_assert_eq(module.pid, (uint32_t)getpid());
	cr_assert_eq(kp_raw_reader_init(&reader, file, size, "memory", &err), 0);
	while (kp_raw_read(&reader, &record, &err) == KP_RAW_RECORD)
		image |= record.type == KP_RAW_IMAGE && ends_with(record.image.path, "[vdso]") &&
			 record.image.bytes.len >= 4096 &&
			 memcmp(record.image.bytes.text, "\177ELF", 4) == 0;
	cr_assert(image);
	cr_assert(kp_modules_contain(&modules, (uint64_t)(uintptr_t)scan));
	cr_assert_not(kp_modules_contain(&modules, (uint64_t)(uintptr_t)file));
	cr_assert_not(kp_modules_contain(&modules, 0));
	cr_assert_not(kp_modules_contain(&modules, UINT64_MAX));
}

Test(modules, second_look_writes_only_what_is_new)
{
	char path[] = "/tmp/kitprof-test-code";
	struct kp_raw_module module;
	size_t before;
	void *code;

	begin();
	scan();
	before = size;
	cr_assert_eq(scan(), 0);
	cr_assert_eq(size, before);
	code = map_code(path, NULL);
	cr_assert_eq(scan(), 1);
	cr_assert(find(code, &module));
	cr_assert(ends_with(module.path, "/kitprof-test-code"));
	cr_assert_eq(module.build_id.len, 0);

	/* Unmapped: not a module any more. Mapped again: written again. */
	munmap(code, 4096);
	cr_assert_eq(scan(), 0);
	cr_assert_not(kp_modules_contain(&modules, (uint64_t)(uintptr_t)code));
	map_code(path, code);
	cr_assert_eq(scan(), 1);
	unlink(path);
}

Test(modules, other_file_in_the_same_place_is_another_module)
{
	struct kp_raw_module module;
	void *code;

	begin();
	code = map_code("/tmp/kitprof-test-one", NULL);
	scan();
	cr_assert(find(code, &module));
	cr_assert(ends_with(module.path, "-one"));
	map_code("/tmp/kitprof-test-two", code);
	cr_assert_eq(scan(), 1);
	cr_assert(find(code, &module));
	cr_assert(ends_with(module.path, "-two"));
	unlink("/tmp/kitprof-test-one");
	unlink("/tmp/kitprof-test-two");
}

Test(modules, deleted_file_keeps_its_name)
{
	struct kp_raw_module module;
	void *code = map_code("/tmp/kitprof-test-gone", NULL);

	unlink("/tmp/kitprof-test-gone");
	begin();
	scan();
	cr_assert(find(code, &module));
	cr_assert(ends_with(module.path, "/kitprof-test-gone"));
}

Test(modules, memory_without_a_file_and_the_agent_itself)
{
	struct kp_raw_module module;
	char *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *agent = map_code("/tmp/kitprof-test-agent", NULL);

	begin();
	modules.skip_base = (uint64_t)(uintptr_t)agent;
	modules.skip_end = modules.skip_base + 4096;
	scan();
	cr_assert(find(code, &module));
	cr_assert_eq(module.path.len, 6);
	cr_assert_eq(memcmp(module.path.text, "//anon", 6), 0);
	cr_assert_not(find(agent, &module));
	cr_assert_not(kp_modules_contain(&modules, modules.skip_base));
	unlink("/tmp/kitprof-test-agent");
}

Test(modules, target_that_is_gone_changes_nothing)
{
	size_t count, before;

	begin();
	scan();
	count = modules.count;
	before = size;
	modules.pid = INT32_MAX;
	cr_assert_eq(scan(), 0);
	cr_assert_eq(modules.count, count);
	cr_assert_eq(size, before);
}

static size_t told;

/* The mark is the first page of what was found. */
static const void *take_mark(void *ctx, const struct kp_module_found *found)
{
	uint8_t *mark = calloc(1, 4096);

	cr_assert_eq(ctx, &told);
	if (found->fd >= 0)
		cr_assert_eq(pread(found->fd, mark, 4096, 0), 4096);
	else
		memcpy(mark, found->image, found->image_bytes < 4096 ? found->image_bytes : 4096);
	told++;
	return mark;
}

Test(modules, keep_what_is_made_of_them_when_they_are_new)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	const struct kp_known_module *mine, *image;
	size_t before;

	begin();
	modules.found = take_mark;
	modules.found_ctx = &told;
	scan();
	before = told;
	cr_assert_gt(before, 2);
	mine = kp_modules_find(&modules, (uintptr_t)scan);
	image = kp_modules_find(&modules, (uintptr_t)vdso);
	cr_assert(mine && mine->mark && image && image->mark);
	cr_assert_eq(memcmp(mine->mark, "\177ELF", 4), 0);
	cr_assert_eq(memcmp(image->mark, vdso, 4096), 0);
	cr_assert(modules.changed);
	modules.changed = false;
	/* Again: nothing is new, and the marks are kept. */
	cr_assert_eq(scan(), 0);
	cr_assert_eq(told, before);
	cr_assert_not(modules.changed);
	cr_assert_eq(memcmp(kp_modules_find(&modules, (uintptr_t)scan)->mark, "\177ELF", 4), 0);
}

static struct kp_map heard(uint64_t start, uint64_t end, const char *path)
{
	return (struct kp_map){
		.start = start, .end = end, .inode = 1, .exec = true, .path = path
	};
}

Test(modules, that_somebody_tells_of_take_the_place_of_others)
{
	struct kp_map high = heard(0x5000, 0x8000, "/no/such/high"),
		      low = heard(0x1000, 0x2000, "/no/such/low"),
		      over = heard(0x7000, 0x9000, "/no/such/over");
	struct kp_raw_module record;

	begin();
	cr_assert_eq(kp_modules_add(&modules, &high, &err), 0);
	cr_assert_eq(kp_modules_add(&modules, &low, &err), 0);
	cr_assert_eq(kp_modules_add(&modules, &low, &err), 0);
	cr_assert_eq(modules.count, 2);
	cr_assert_eq(kp_modules_find(&modules, 0x1fff)->start, 0x1000);
	cr_assert_eq(kp_modules_find(&modules, 0x5000)->start, 0x5000);
	cr_assert(find((const void *)0x7800, &record));
	cr_assert(ends_with(record.path, "/high"));
	cr_assert_eq(kp_modules_add(&modules, &over, &err), 0);
	cr_assert_eq(modules.count, 2);
	cr_assert_null(kp_modules_find(&modules, 0x5000)); /* what is left of it nobody knows */
	cr_assert_eq(kp_modules_find(&modules, 0x8fff)->start, 0x7000);
	cr_assert(find((const void *)0x7800, &record));
	cr_assert(ends_with(record.path, "/over"));
}
