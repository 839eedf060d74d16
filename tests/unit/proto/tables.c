/* The directory of modules and tables: what is found, and what is not believed. */
#include "proto/tables.h"

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define AREA_BYTES (KP_TABLES_DIRECTORY_BYTES + 65536)

static struct kp_tables_directory directory;

/* The n-th of a row of modules, with a gap of 0x1000 behind each. */
static struct kp_tables_module module(uint64_t n)
{
	return (struct kp_tables_module){
		.start = 0x10000 * (n + 1),
		.end = 0x10000 * (n + 2) - 0x1000,
		.address = 0x400000 + n,
		.table_off = KP_TABLES_DIRECTORY_BYTES + 8 * n,
		.table_bytes = 100 + n,
	};
}

static void publish(size_t count)
{
	struct kp_tables_module *modules = calloc(count + 1, sizeof(*modules));

	for (size_t i = 0; i < count; i++)
		modules[i] = module(i);
	kp_tables_publish(&directory, modules, count);
	free(modules);
}

static bool finds(uint64_t pc, uint64_t n)
{
	struct kp_tables_module want = module(n), got;

	return kp_tables_find(&directory, AREA_BYTES, pc, &got) == 0 &&
	       memcmp(&got, &want, sizeof(got)) == 0;
}

static bool finds_nothing(uint64_t pc)
{
	struct kp_tables_module got;

	return kp_tables_find(&directory, AREA_BYTES, pc, &got) == -1;
}

Test(tables, empty_directory_has_no_module)
{
	cr_assert(finds_nothing(0));
	cr_assert(finds_nothing(0x10000));
	cr_assert(finds_nothing(UINT64_MAX));
	publish(0);
	cr_assert(finds_nothing(0x10000));
}

Test(tables, module_is_found_from_its_start_to_its_end)
{
	publish(5);
	for (uint64_t n = 0; n < 5; n++) {
		cr_assert(finds_nothing(module(n).start - 1));
		cr_assert(finds(module(n).start, n));
		cr_assert(finds(module(n).end - 1, n));
		cr_assert(finds_nothing(module(n).end));
	}
	cr_assert(finds_nothing(UINT64_MAX));
}

Test(tables, each_publication_replaces_the_one_before)
{
	for (size_t count = 1; count < 20; count++) {
		publish(count);
		cr_assert(finds(module(count - 1).start, count - 1));
		cr_assert(finds_nothing(module(count).start));
	}
	publish(3);
	cr_assert(finds(module(2).start, 2));
	cr_assert(finds_nothing(module(3).start));
}

Test(tables, modules_beyond_the_maximum_are_cut_off)
{
	size_t max = KP_TABLES_MODULES_MAX;

	publish(max + 10);
	cr_assert(finds(module(0).start, 0));
	cr_assert(finds(module(max - 1).start, max - 1));
	cr_assert(finds_nothing(module(max).start));
}

static void publish_one(uint64_t table_off, uint64_t table_bytes)
{
	struct kp_tables_module one = module(0);

	one.table_off = table_off;
	one.table_bytes = table_bytes;
	kp_tables_publish(&directory, &one, 1);
}

Test(tables, table_outside_of_the_area_is_not_believed)
{
	uint64_t pc = module(0).start;
	struct kp_tables_module got;

	publish_one(AREA_BYTES - 64, 64);
	cr_assert_eq(kp_tables_find(&directory, AREA_BYTES, pc, &got), 0);
	publish_one(AREA_BYTES - 64, 65);
	cr_assert(finds_nothing(pc));
	publish_one(AREA_BYTES, 0);
	cr_assert_eq(kp_tables_find(&directory, AREA_BYTES, pc, &got), 0);
	publish_one(AREA_BYTES + 8, 0);
	cr_assert(finds_nothing(pc));
	publish_one(UINT64_MAX - 7, 64);
	cr_assert(finds_nothing(pc));
	publish_one(AREA_BYTES - 64, UINT64_MAX - 63);
	cr_assert(finds_nothing(pc));
	publish_one(AREA_BYTES - 60, 8); /* not aligned */
	cr_assert(finds_nothing(pc));
	publish_one(0, 8); /* the directory itself */
	cr_assert(finds_nothing(pc));
}

Test(tables, area_too_small_for_a_directory_is_not_looked_at)
{
	struct kp_tables_module got;

	cr_assert_eq(kp_tables_find(NULL, 0, 0x10000, &got), -1);
	cr_assert_eq(kp_tables_find(NULL, KP_TABLES_DIRECTORY_BYTES - 1, 0x10000, &got), -1);
}

Test(tables, count_beyond_the_maximum_is_not_believed)
{
	publish(5);
	directory.count[directory.seq & 1] = KP_TABLES_MODULES_MAX + 1;
	cr_assert(finds_nothing(module(0).start));
	directory.count[directory.seq & 1] = UINT32_MAX;
	cr_assert(finds_nothing(module(0).start));
}

/* Whatever the words are: no crash, and what is found holds pc and lies within the area. */
Test(tables, directory_of_noise_does_no_harm)
{
	uint64_t *word = (uint64_t *)(void *)&directory, state = 1;

	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < sizeof(directory) / 8; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			word[i] = state >> (state >> 58);
		}
		directory.count[0] = directory.count[1] =
			(uint32_t)(state >> 33) % (KP_TABLES_MODULES_MAX + 2);
		for (int i = 0; i < 1000; i++) {
			uint64_t pc = word[(size_t)i * 17 % (sizeof(directory) / 8)];
			struct kp_tables_module got;

			if (kp_tables_find(&directory, AREA_BYTES, pc, &got) != 0)
				continue;
			cr_assert(pc >= got.start && pc < got.end);
			cr_assert_leq(got.table_off, AREA_BYTES);
			cr_assert_leq(got.table_bytes, AREA_BYTES - got.table_off);
		}
	}
}
