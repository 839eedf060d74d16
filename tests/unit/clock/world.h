/* A world for the clocks that look from outside, whose time and threads the test makes. */
#pragma once

#include "common/unwind/fp.h"
#include "daemon/clock/outside.h"
#include "tests/support/test.h"

#include <string.h>

#define WORLD_THREADS 64
#define WORLD_WORDS 4

struct world_thread {
	bool gone;
	struct kp_proc_sched sched;
	struct kp_thread_where where;
	uint64_t seen_cpu_ns; /* what the kernel says; sched.cpu_ns is the truth */
	bool stale; /* it says seen_cpu_ns */
};

static struct world {
	uint64_t now;
	struct world_thread thread[WORLD_THREADS]; /* by tid */
	enum kp_ask ask; /* what ask() says */
	uint8_t walk_end; /* of stacks that are seen */
	uint32_t reads; /* may_read(): so many more */
	pid_t asked[64];
	uint32_t asked_count;
	bool readable; /* stacks can be read without a stop */
	uint32_t read_count;
	uint64_t memory[WORLD_WORDS]; /* by address */
	struct {
		pid_t tid;
		uint32_t overrun;
		uint16_t depth;
		uint64_t leaf;
	} sample[4096];
	uint32_t samples;
	uint64_t weight; /* of all samples, in periods */
} world;

static uint64_t world_now(void *ctx)
{
	(void)ctx;
	return world.now;
}

static bool world_sched(void *ctx, pid_t tid, struct kp_proc_sched *ret)
{
	struct world_thread *t = &world.thread[tid];

	(void)ctx;
	*ret = t->sched;
	if (t->stale)
		ret->cpu_ns = t->seen_cpu_ns;
	return !t->gone;
}

static void world_where(void *ctx, pid_t tid, struct kp_thread_where *ret)
{
	(void)ctx;
	*ret = world.thread[tid].where;
}

static inline bool world_may_read(void *ctx)
{
	(void)ctx;
	if (!world.reads)
		return false;
	world.reads--;
	return true;
}

static inline bool world_read(void *ctx, pid_t tid, const struct kp_thread_where *where,
			      struct kp_sight *ret)
{
	static uint64_t pc[2];

	(void)ctx;
	(void)tid;
	pc[0] = where->pc;
	*ret = (struct kp_sight){ .sp = where->sp, .pc = pc, .depth = 2 };
	world.read_count += world.readable;
	return world.readable;
}

static enum kp_ask world_ask(void *ctx, struct kp_clock *clock, pid_t tid)
{
	(void)ctx;
	(void)clock;
	if (world.ask == KP_ASK_DONE)
		world.asked[world.asked_count++ % 64] = tid;
	return world.ask;
}

static bool world_unchanged(void *ctx, const struct kp_sight_word *word, uint32_t count)
{
	(void)ctx;
	for (uint32_t i = 0; i < count; i++)
		if (world.memory[word[i].addr] != word[i].value)
			return false;
	return true;
}

static void world_put(void *ctx, struct kp_clock *clock, pid_t tid, uint32_t overrun,
		      const struct kp_sight *sight)
{
	(void)ctx;
	(void)clock;
	cr_assert_lt(world.samples, 4096);
	world.sample[world.samples].tid = tid;
	world.sample[world.samples].overrun = overrun;
	world.sample[world.samples].depth = sight->depth;
	world.sample[world.samples].leaf = sight->pc[0];
	world.samples++;
	world.weight += 1 + (uint64_t)overrun;
}

static const struct kp_outside_ops world_ops = {
	.now_ns = world_now,
	.sched = world_sched,
	.where = world_where,
	.may_read = world_may_read,
	.read = world_read,
	.ask = world_ask,
	.unchanged = world_unchanged,
	.put = world_put,
};

static const struct kp_outside world_outside = { &world_ops, NULL };

static void world_begin(void)
{
	memset(&world, 0, sizeof(world));
	world.now = UINT64_C(1000000000000);
	world.reads = UINT32_MAX;
	world.walk_end = KP_WALK_ROOT;
	for (pid_t tid = 1; tid < WORLD_THREADS; tid++) {
		world.thread[tid].sched.runs = 1;
		world.thread[tid].where.place = KP_PLACE_RUNNING;
	}
}
