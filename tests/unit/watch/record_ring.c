/* Unit tests of the records that the kernel writes about tasks, in buffers made up here. */
#include "daemon/watch/record_ring.h"
#include "tests/support/test.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

static _Alignas(64) uint8_t memory[2 * PAGE];
static struct kp_record_ring ring;

static void begin(uint64_t at)
{
	memset(memory, 0, sizeof(memory));
	ring = (struct kp_record_ring){ .page = memory, .data_bytes = PAGE, .tail = at };
	((struct perf_event_mmap_page *)(void *)memory)->data_head = at;
}

static void put_bytes(const void *bytes, size_t size)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)(void *)memory;

	for (size_t i = 0; i < size; i++)
		memory[PAGE + (page->data_head + i) % PAGE] = ((const uint8_t *)bytes)[i];
	page->data_head += size;
}

/* A record of words behind the head; the last one is its time. */
static void put(uint32_t type, uint16_t misc, const uint64_t *words, size_t count)
{
	struct perf_event_header header = { type, misc, (uint16_t)(8 + 8 * count) };

	put_bytes(&header, sizeof(header));
	put_bytes(words, 8 * count);
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static struct kp_task_event next(void)
{
	struct kp_task_event event = { .type = KP_TASK_LOST };

	kp_record_ring_look(&ring);
	cr_assert(kp_record_ring_front(&ring, &event));
	kp_record_ring_take(&ring);
	kp_record_ring_release(&ring);
	return event;
}

static void expect_nothing(void)
{
	struct kp_task_event event;

	kp_record_ring_look(&ring);
	cr_assert(!kp_record_ring_front(&ring, &event));
	kp_record_ring_release(&ring);
	cr_assert_eq(((struct perf_event_mmap_page *)(void *)memory)->data_tail, ring.head);
}

static void put_fork(uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	put(PERF_RECORD_FORK, 0,
	    (uint64_t[]){ pair(pid, 7), pair(tid, 8), time_ns + 1000, time_ns }, 4);
}

Test(record_ring, says_who_was_born_to_whom_and_when)
{
	struct kp_task_event event;

	begin(0);
	expect_nothing();
	put_fork(11, 12, 99);
	event = next();
	cr_assert_eq(event.type, KP_TASK_FORK);
	cr_assert_eq(event.pid, 11);
	cr_assert_eq(event.tid, 12);
	cr_assert_eq(event.parent_pid, 7);
	cr_assert_eq(event.parent_tid, 8);
	cr_assert_eq(event.time_ns, 99);
	expect_nothing();
}

Test(record_ring, says_how_long_a_thread_ran)
{
	struct kp_task_event event;

	begin(0);
	put(PERF_RECORD_READ, 0, (uint64_t[]){ pair(11, 12), 1, 2000, 1500, 99 }, 5);
	event = next();
	cr_assert_eq(event.type, KP_TASK_RAN);
	cr_assert_eq(event.tid, 12);
	cr_assert_eq(event.ran_ns, 2000);
	cr_assert(event.since_birth);
}

Test(record_ring, tells_an_exec_from_a_new_name)
{
	uint64_t words[] = { pair(11, 11), 0, 5 };
	struct kp_task_event event;

	begin(0);
	memcpy(&words[1], "name\0\0\0", 8);
	put(PERF_RECORD_COMM, 0, words, 3);
	put(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, words, 3);
	event = next();
	cr_assert_eq(event.type, KP_TASK_NAME);
	cr_assert_str_eq(event.comm, "name");
	event = next();
	cr_assert_eq(event.type, KP_TASK_EXEC);
	cr_assert_str_eq(event.comm, "name");
}

Test(record_ring, reads_across_the_end_of_the_buffer)
{
	begin(PAGE * 7 - 20);
	for (uint32_t i = 1; i < 500; i++) {
		put_fork(i, i + 1, i);
		cr_assert_eq(next().tid, (pid_t)i + 1);
	}
}

Test(record_ring, passes_over_what_is_of_another_kind)
{
	begin(0);
	put(PERF_RECORD_AUX, 0, (uint64_t[]){ 1, 2, 3, 4 }, 4);
	put(4711, 0, (uint64_t[]){ 1 }, 1);
	put_fork(1, 2, 3);
	cr_assert_eq(next().type, KP_TASK_FORK);
	put(PERF_RECORD_AUX, 0, (uint64_t[]){ 1, 2, 3, 4 }, 4);
	expect_nothing();
}

/* A head of that size in front of a good record: all is given up, and what comes later is read. */
static void expect_lost(uint16_t size)
{
	struct perf_event_header header = { PERF_RECORD_FORK, 0, size };

	begin(64);
	put_bytes(&header, sizeof(header));
	put_fork(1, 2, 3);
	cr_assert_eq(next().type, KP_TASK_LOST);
	expect_nothing();
	put_fork(4, 5, 6);
	cr_assert_eq(next().pid, 4);
}

Test(record_ring, gives_up_what_is_no_record)
{
	expect_lost(0);
	expect_lost(7);
	expect_lost(8);
	expect_lost(15);
	expect_lost(4000);
	expect_lost(65535);
}

Test(record_ring, gives_up_a_head_that_has_run_away)
{
	begin(0);
	put_fork(1, 2, 3);
	((struct perf_event_mmap_page *)(void *)memory)->data_head = 5 * PAGE;
	cr_assert_eq(next().type, KP_TASK_LOST);
	expect_nothing();
}

Test(record_ring, survives_any_bytes)
{
	srand(1);
	for (int round = 0; round < 2000; round++) {
		struct kp_task_event event;
		int taken = 0;

		begin((uint64_t)rand());
		for (size_t i = 0; i < PAGE; i++)
			memory[PAGE + i] = rand() % 3 ? 0 : (uint8_t)rand();
		((struct perf_event_mmap_page *)(void *)memory)->data_head +=
			(uint64_t)rand() % (PAGE + 1);
		kp_record_ring_look(&ring);
		for (; kp_record_ring_front(&ring, &event); kp_record_ring_take(&ring))
			cr_assert(++taken < (int)PAGE);
		cr_assert_eq(ring.tail, ring.head);
	}
}
