/*
 * A publisher that replaces the directory of modules as fast as it can, and readers that look up in
 * it meanwhile. Each entry says which publication it belongs to and all its words follow from that:
 * one that was put together from two does not fit. Every publication covers the same addresses, so
 * only a reader that was overtaken twice may find nothing. Built a second time with the thread
 * sanitizer.
 */
#include "proto/tables.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 3u
#define PUBLICATIONS 4000u
#define COUNT_MAX 128u
#define CODE_BYTES 0x100000u /* [CODE_BYTES, 2 * CODE_BYTES) is covered, in different parts */
#define AREA_BYTES (UINT64_C(1) << 40)

static struct kp_tables_directory directory;
static uint64_t table[PUBLICATIONS + 1]; /* what modules point to: written before, like tables */
static uint32_t done;
static uint64_t found[READERS], missed[READERS];

/* Divides the addresses into count modules, other ones each time. */
static uint32_t count_of(uint64_t publication)
{
	return 1 + (uint32_t)(publication * 37 % COUNT_MAX);
}

static struct kp_tables_module module(uint64_t publication, uint32_t i)
{
	uint32_t count = count_of(publication);
	uint64_t part = CODE_BYTES / count;

	return (struct kp_tables_module){
		.start = CODE_BYTES + part * i,
		.end = i + 1 == count ? 2 * CODE_BYTES : CODE_BYTES + part * (i + 1),
		.address = publication << 32 | i,
		.table_off = KP_TABLES_DIRECTORY_BYTES + 8 * publication,
		.table_bytes = publication + i,
	};
}

static void die(const char *what, uint64_t pc, const struct kp_tables_module *m)
{
	printf("FAILED: %s: pc %#lx in [%#lx, %#lx) of publication %lu\n", what, (unsigned long)pc,
	       (unsigned long)m->start, (unsigned long)m->end, (unsigned long)(m->address >> 32));
	exit(1);
}

static uint64_t check(uint64_t pc, uint64_t newest, const struct kp_tables_module *got)
{
	uint64_t publication = got->address >> 32;
	struct kp_tables_module want = module(publication, (uint32_t)got->address);

	if (got->start != want.start || got->end != want.end || got->address != want.address ||
	    got->table_off != want.table_off || got->table_bytes != want.table_bytes)
		die("torn", pc, got);
	if (pc < got->start || pc >= got->end)
		die("not there", pc, got);
	if (table[publication] != publication)
		die("its table is not there", pc, got);
	if (publication < newest)
		die("older than one seen before", pc, got);
	return publication;
}

static void *look_up(void *arg)
{
	uint32_t reader = (uint32_t)(uintptr_t)arg;
	uint64_t state = reader + 1, newest = 0;

	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		struct kp_tables_module got;
		uint64_t pc;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
		pc = CODE_BYTES + (state >> 33) % CODE_BYTES;
		if (kp_tables_find(&directory, AREA_BYTES, pc, &got) == 0) {
			newest = check(pc, newest, &got);
			found[reader]++;
		} else {
			missed[reader]++;
		}
	}
	return NULL;
}

static void publish(uint64_t publication)
{
	struct kp_tables_module modules[COUNT_MAX];
	uint32_t count = count_of(publication);

	for (uint32_t i = 0; i < count; i++)
		modules[i] = module(publication, i);
	table[publication] = publication;
	kp_tables_publish(&directory, modules, count);
}

int main(void)
{
	pthread_t threads[READERS];
	uint64_t finds = 0, misses = 0;

	publish(1);
	for (uint32_t i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, look_up, (void *)(uintptr_t)i) != 0)
			return 1;
	for (uint64_t publication = 2; publication <= PUBLICATIONS; publication++) {
		publish(publication);
		if (publication % 16 == 0)
			sched_yield();
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		finds += found[i];
		misses += missed[i];
	}
	printf("%lu found, %lu overtaken\n", (unsigned long)finds, (unsigned long)misses);
	if (finds < 100 || misses > finds) {
		printf("FAILED: readers find too little\n");
		return 1;
	}
	return 0;
}
