/*
 * Unit tests of what the kernel copies of a thread: records in a buffer made up here, and those that
 * it really writes of a child of this test. Where the system allows no perf events the latter say so
 * and prove nothing.
 */
#include "common/unwind/walk.h"
#include "daemon/watch/task_detail.h"
#include "tests/support/test.h"

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define DATA (8 * PAGE)
#define MS UINT64_C(1000000)

/* ---- records ---- */

static _Alignas(64) uint8_t memory[PAGE + DATA];
static struct kp_record_ring ring;
static struct kp_task_detail detail;

static void put_record(uint32_t type, const void *body, size_t size, uint64_t at)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)(void *)memory;
	struct perf_event_header header = { type, 0, (uint16_t)(sizeof(header) + size) };
	const uint8_t *bytes = (const uint8_t *)&header;

	memset(memory, 0, sizeof(memory));
	ring = (struct kp_record_ring){ .page = memory, .data_bytes = DATA, .tail = at };
	for (size_t i = 0; i < header.size; i++)
		memory[PAGE + (at + i) % DATA] =
			i < sizeof(header) ? bytes[i] : ((const uint8_t *)body)[i - sizeof(header)];
	page->data_head = at + header.size;
}

static struct kp_task_event next(void)
{
	struct kp_task_event event = { .type = KP_TASK_LOST };

	cr_assert(kp_record_ring_look(&ring));
	cr_assert(kp_record_ring_front(&ring, &event));
	kp_task_detail_take(&detail, &ring, &event);
	kp_record_ring_take(&ring);
	return event;
}

/* The words of a sample of thread 12 of process 11 with so many words of stack; returns their count. */
static size_t sample_words(uint64_t *words, size_t room, size_t used)
{
	size_t n = 0;

	words[n++] = UINT64_C(12) << 32 | 11;
	words[n++] = 99;
	words[n++] = PERF_SAMPLE_REGS_ABI_64;
	for (uint64_t reg = 0; reg < 64; reg++)
		if (kp_task_regs_mask() >> reg & 1)
			words[n++] = reg == PERF_REG_X86_SP ? 0x7000 : 1000 + reg;
	words[n++] = 8 * room;
	for (size_t i = 0; i < room; i++)
		words[n++] = 5000 + i;
	if (room)
		words[n++] = 8 * used;
	return n;
}

static struct kp_task_event sample(size_t room, size_t used, uint64_t at)
{
	uint64_t words[700];
	size_t n = sample_words(words, room, used);

	put_record(PERF_RECORD_SAMPLE, words, 8 * n, at);
	return next();
}

Test(task_samples, have_registers_and_stack)
{
	struct kp_task_event event = sample(512, 100, 0);
	const struct kp_ring_slice *slice;

	cr_assert_eq(event.type, KP_TASK_SAMPLE);
	cr_assert_eq(event.pid, 11);
	cr_assert_eq(event.tid, 12);
	cr_assert_eq(event.time_ns, 99);
	cr_assert(event.sample);
	cr_assert_eq(event.sample->origin, 12);
	cr_assert_eq(event.sample->source, KP_SOURCE_EARLY);
	cr_assert_eq(event.sample->how, KP_HOW_SLICE);
	cr_assert_eq(event.sample->depth, KP_SLICE_HEAD_WORDS + 100);
	slice = (const struct kp_ring_slice *)(const void *)event.sample->pc;
	cr_assert_eq(slice->pc, 1000 + PERF_REG_X86_IP);
	cr_assert_eq(slice->sp, 0x7000);
	cr_assert_eq(slice->fp, 1000 + PERF_REG_X86_BP);
	cr_assert_eq(slice->reg[3], 1000 + PERF_REG_X86_BX);
	cr_assert_eq(slice->reg[12], 1000 + PERF_REG_X86_R12);
	cr_assert_eq(slice->reg[20], 0);
	cr_assert_eq(slice->stack[99], 5099);
}

Test(task_samples, say_that_the_stack_went_on)
{
	cr_assert_eq(sample(512, 512, 0).sample->how, KP_HOW_SLICE | KP_HOW_CUT);
}

Test(task_samples, are_read_across_the_end_of_the_buffer)
{
	struct kp_task_event event = sample(512, 300, DATA - 1000);

	cr_assert(event.sample);
	cr_assert_eq(event.sample->depth, KP_SLICE_HEAD_WORDS + 300);
}

Test(task_samples, without_a_stack_are_a_place)
{
	struct kp_task_event event = sample(0, 0, 0);

	cr_assert(event.sample);
	cr_assert_eq(event.sample->depth, KP_SLICE_HEAD_WORDS);
}

Test(task_samples, that_make_no_sense_are_none)
{
	uint64_t words[700];
	size_t n = sample_words(words, 512, 100);

	cr_assert_null(sample(513, 100, 0).sample); /* more than was asked for */
	cr_assert_null(sample(512, 513, 0).sample); /* more than there is room for */
	for (size_t cut = 2; cut < n; cut += 7) {
		put_record(PERF_RECORD_SAMPLE, words, 8 * cut, 0);
		cr_assert_null(next().sample);
	}
	words[2] = PERF_SAMPLE_REGS_ABI_32;
	put_record(PERF_RECORD_SAMPLE, words, 8 * n, 0);
	cr_assert_null(next().sample);
}

struct mapping {
	uint32_t pid, tid;
	uint64_t start, bytes, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t protection, flags;
	char name[16];
	uint64_t time_ns;
};

Test(task_samples, mappings_have_their_file)
{
	struct mapping mapping = { .pid = 11,
				   .tid = 12,
				   .start = 0x1000,
				   .bytes = 0x2000,
				   .offset = 0x3000,
				   .major = 8,
				   .minor = 1,
				   .inode = 77,
				   .name = "/lib/libx.so",
				   .time_ns = 99 };
	struct kp_task_event event;

	put_record(PERF_RECORD_MMAP2, &mapping, sizeof(mapping), 0);
	event = next();
	cr_assert_eq(event.type, KP_TASK_MMAP);
	cr_assert_eq(event.time_ns, 99);
	cr_assert(event.map);
	cr_assert_eq(event.map->start, 0x1000);
	cr_assert_eq(event.map->end, 0x3000);
	cr_assert_eq(event.map->offset, 0x3000);
	cr_assert_eq(event.map->inode, 77);
	cr_assert_eq(event.map->dev, makedev(8, 1));
	cr_assert_str_eq(event.map->path, "/lib/libx.so");
	memset(mapping.name, 'x', sizeof(mapping.name)); /* no end */
	put_record(PERF_RECORD_MMAP2, &mapping, sizeof(mapping), 0);
	cr_assert_null(next().map);
	mapping = (struct mapping){ .start = 0x1000 };
	put_record(PERF_RECORD_MMAP2, &mapping, sizeof(mapping), 0);
	cr_assert_null(next().map);
}

/* ---- the kernel's own ---- */

static struct kp_task_events *events;
static int gate[2];
static pid_t child;
static int births, births_sampled, samples, in_burn, samples_of_first;
static pid_t first; /* that was born */

/* User mode only: what is in the kernel need not be sampled. */
__attribute__((noinline)) static void *burn(void *arg)
{
	struct timespec start, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((uint64_t)(now.tv_sec - start.tv_sec) * 1000 * MS + (uint64_t)now.tv_nsec -
			 (uint64_t)start.tv_nsec <
		 20 * MS);
	return arg;
}

static int note(void *ctx, const struct kp_task_event *event, struct kp_err *err)
{
	(void)ctx, (void)err;
	if (event->type == KP_TASK_FORK) {
		first = births++ ? first : event->tid;
		births_sampled += event->sampled;
	}
	if (event->type == KP_TASK_SAMPLE && event->tid != child && event->sample) {
		uint64_t pc = event->sample->pc[0], start = (uint64_t)(uintptr_t)burn;

		samples++;
		samples_of_first += event->tid == first;
		in_burn += pc >= start && pc < start + 500;
	}
	return 0;
}

static void read_for(int ms)
{
	for (int i = 0; i < ms; i += 5) {
		poll(NULL, 0, 5);
		cr_assert_eq(kp_task_events_read(events, note, NULL, NULL), 0);
	}
}

static void *burn_for_ever(void *arg)
{
	while (burn(arg) == arg)
		;
	return arg;
}

/* A thread each time that it is told to, for a while or for ever, until the gate is closed. */
static void live(void)
{
	pthread_t thread;
	char go;

	while (read(gate[0], &go, 1) == 1) {
		pthread_create(&thread, NULL, go == 'e' ? burn_for_ever : burn, NULL);
		if (go != 'e')
			pthread_join(thread, NULL);
	}
}

static bool begin(void)
{
	if (kp_task_events_create(false, &events, NULL) < 0 || !kp_task_events_sample(events, MS)) {
		fprintf(stderr, "skipped: no perf events, or no room for their buffers\n");
		return false;
	}
	cr_assert_eq(pipe(gate), 0);
	child = fork();
	if (child == 0) {
		close(gate[1]);
		live();
		_exit(0);
	}
	cr_assert_eq(kp_task_events_add(events, child, NULL), 0);
	return true;
}

static void end(void)
{
	close(gate[1]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	kp_task_events_destroy(events);
}

/* The next one is told of. */
static void bear(const char *how)
{
	int before = births;

	cr_assert_eq(write(gate[1], how, 1), 1);
	for (int i = 0; i < 100 && births == before; i++)
		read_for(20);
	cr_assert_eq(births, before + 1);
}

Test(task_samples, a_thread_is_sampled_from_its_birth)
{
	if (!begin())
		return;
	/* On a busy machine a third of a second may pass between two. */
	for (int i = 0; i < 20 && in_burn < 5; i++) {
		bear("g");
		read_for(50);
	}
	cr_assert_geq(births_sampled, 1);
	cr_assert_geq(samples, 5);
	cr_assert_geq(in_burn, 5);
	end();
}

Test(task_samples, end_when_nothing_is_born_and_begin_anew)
{
	if (!begin())
		return;
	read_for(400);
	bear("g");
	cr_assert_eq(births_sampled, 0); /* nobody was asked to */
	for (int i = 0; i < 20 && !births_sampled; i++)
		bear("g");
	cr_assert_geq(births_sampled, 1);
	end();
}

Test(task_samples, of_who_lives_on_end_while_others_are_born)
{
	int before;

	if (!begin())
		return;
	bear("e");
	for (int i = 0; i < 10; i++) {
		bear("g");
		read_for(50);
	}
	before = samples_of_first;
	for (int i = 0; i < 4; i++) {
		bear("g");
		read_for(50);
	}
	cr_assert_eq(samples_of_first, before);
	end();
}
