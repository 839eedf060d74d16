/*
 * Threads that write to one small ring as fast as they can, and a reader that gives up on tickets
 * again and again, so that records are dropped, skipped and come late. Each record carries its
 * writer and number, and PCs that follow from them: a torn one does not fit. What was published
 * is read once, and taken = kept + dropped. Built a
 * second time with the thread sanitizer, which checks the memory orders.
 */
#include "common/unwind/fp.h"
#include "proto/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITERS 4u
#define SAMPLES 60000u /* of each writer */
#define CELLS 8u
#define DEPTH 9u

static struct kp_ring *ring;
static uint8_t published[WRITERS][SAMPLES]; /* each written by its own writer */
static uint8_t delivered[WRITERS][SAMPLES];
static uint32_t writers_left = WRITERS;

static uint64_t word(uint32_t writer, uint32_t sample, uint32_t i)
{
	return (writer * UINT64_C(1000003) + sample) * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static void fill(struct kp_ring_record *record, uint32_t writer, uint32_t sample)
{
	record->origin = writer;
	record->overrun = sample;
	record->depth = (uint16_t)(1 + sample % DEPTH);
	record->source = KP_SOURCE_EVENT;
	record->walk_end = KP_WALK_ROOT;
	record->how = (writer ^ sample) << 8; /* no slice */
	for (uint32_t i = 0; i < record->depth; i++)
		record->pc[i] = word(writer, sample, i);
}

static void *write_samples(void *arg)
{
	uint32_t writer = (uint32_t)(uintptr_t)arg;

	for (uint32_t sample = 0; sample < SAMPLES; sample++) {
		uint64_t ticket;
		struct kp_ring_record *record = kp_ring_claim(ring, &ticket);

		if (!record) {
			sched_yield(); /* full: let the reader run */
			continue;
		}
		fill(record, writer, sample);
		if (sample % 16 == 0)
			sched_yield(); /* half-way: to be given up on now and then */
		kp_ring_publish(ring, ticket);
		published[writer][sample] = 1;
	}
	__atomic_fetch_sub(&writers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void die(const char *what, const struct kp_ring_record *record)
{
	printf("FAILED: writer %u sample %u depth %u: %s\n", record->origin, record->overrun,
	       record->depth, what);
	exit(1);
}

static void deliver(const struct kp_ring_record *record)
{
	uint32_t writer = record->origin, sample = record->overrun;

	if (writer >= WRITERS || sample >= SAMPLES || record->how != (writer ^ sample) << 8 ||
	    record->depth != 1 + sample % DEPTH)
		die("torn", record);
	for (uint32_t i = 0; i < record->depth; i++)
		if (record->pc[i] != word(writer, sample, i))
			die("torn", record);
	if (delivered[writer][sample]++)
		die("delivered twice", record);
}

/* Reads while writers write and after; at every fourth sight of a pending ticket gives up at once. */
static void read_samples(struct kp_ring_reader *reader)
{
	union {
		struct kp_ring_record record;
		uint64_t room[2 + DEPTH];
	} got;
	uint32_t pending = 0;

	while (__atomic_load_n(&writers_left, __ATOMIC_ACQUIRE) > 0) {
		enum kp_ring_result r = kp_ring_read(reader, &got.record, 0);

		if (r == KP_RING_PENDING && ++pending % 4 == 0)
			r = kp_ring_read(reader, &got.record, 1);
		if (r == KP_RING_RECORD)
			deliver(&got.record);
		else
			sched_yield();
	}
	while (kp_ring_read(reader, &got.record, 1) == KP_RING_RECORD)
		deliver(&got.record);
	while (kp_ring_read_late(reader, &got.record) == KP_RING_RECORD)
		deliver(&got.record);
}

static int check(const struct kp_ring_reader *reader)
{
	uint64_t total = 0;
	struct kp_ring_counts c;

	for (uint32_t w = 0; w < WRITERS; w++)
		for (uint32_t s = 0; s < SAMPLES; s++) {
			total += published[w][s];
			if (published[w][s] != delivered[w][s]) {
				printf("FAILED: writer %u sample %u was lost\n", w, s);
				return 1;
			}
		}
	kp_ring_count(reader, &c);
	printf("taken %lu kept %lu (late %lu) full %lu abandoned %lu bad %lu\n",
	       (unsigned long)c.taken, (unsigned long)c.kept, (unsigned long)reader->late,
	       (unsigned long)c.dropped_full, (unsigned long)c.abandoned, (unsigned long)c.bad);
	if (c.taken != (uint64_t)WRITERS * SAMPLES || c.kept != total || c.bad != 0 ||
	    c.taken != c.kept + c.dropped || reader->resyncs != 0) {
		printf("FAILED: the account does not add up\n");
		return 1;
	}
	return 0;
}

int main(void)
{
	pthread_t threads[WRITERS];
	struct kp_ring_reader reader;
	size_t bytes = kp_ring_bytes(CELLS, DEPTH);

	ring = aligned_alloc(KP_RING_CELL_ALIGN, bytes);
	if (!ring)
		return 1;
	memset(ring, 0, bytes);
	kp_ring_format(ring, CELLS, DEPTH, UINT64_MAX);
	kp_ring_reader_init(&reader, ring, CELLS, DEPTH);
	for (uint32_t i = 0; i < WRITERS; i++)
		if (pthread_create(&threads[i], NULL, write_samples, (void *)(uintptr_t)i) != 0)
			return 1;
	read_samples(&reader);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	return check(&reader);
}
