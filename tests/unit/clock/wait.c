/* Unit tests of the clock of threads that wait: time, places, and how often a thread is stopped. */
#include "world.h"

#define MS UINT64_C(1000000)
#define PERIOD (10 * MS)
#define TID 5
#define READ_PC 0x1000u
#define POLL_PC 0x2000u

static struct kp_clock *clock_;
static struct kp_err err;

static void begin(void)
{
	world_begin();
	cr_assert_eq(kp_wait_clock_create(&world_outside, PERIOD, &clock_, &err), 0);
	cr_assert_eq(clock_->ops->arm(clock_, TID, TID, &err), 0);
}

static void waits_at(pid_t tid, uint64_t pc, uint64_t sp)
{
	world.thread[tid].where = (struct kp_thread_where){ KP_PLACE_SYSCALL, 0, sp, pc, 0 };
}

/* It ran for a moment. */
static void runs(pid_t tid, uint64_t ns)
{
	world.thread[tid].sched.cpu_ns += ns;
	world.thread[tid].sched.runs++;
}

/* A look at it finds it where it waits; for that it has run. */
static void answer(pid_t tid)
{
	const struct kp_thread_where *where = &world.thread[tid].where;
	uint64_t pc[] = { where->pc, 0x5000, 0x6000 };
	struct kp_sight_word word[] = { { 0, world.memory[0] }, { 1, world.memory[1] } };
	struct kp_sight sight = { .sp = where->sp,
				  .pc = pc,
				  .depth = 3,
				  .walk_end = world.walk_end,
				  .word = word,
				  .word_count = 2 };

	runs(tid, 1000);
	kp_wait_clock_seen(clock_, tid, &sight);
}

static void pass(uint64_t ns)
{
	for (uint64_t end = world.now + ns; world.now < end; world.now += MS) {
		uint32_t asked = world.asked_count;

		clock_->ops->serve(clock_);
		for (; asked < world.asked_count; asked++)
			answer(world.asked[asked % 64]);
	}
}

Test(wait, long_wait_is_a_sample_a_second_and_one_stop)
{
	begin();
	waits_at(TID, READ_PC, 64);
	pass(10000 * MS);
	cr_assert_eq(world.asked_count, 1);
	cr_assert_geq(world.samples, 9);
	cr_assert_leq(world.samples, 11);
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 999);
	cr_assert_leq(world.weight, 1000);
	for (uint32_t i = 0; i < world.samples; i++) {
		cr_assert_eq(world.sample[i].depth, 3);
		cr_assert_eq(world.sample[i].leaf, READ_PC);
	}
	kp_clock_destroy(clock_);
}

Test(wait, running_and_waiting_for_a_cpu_do_not_count)
{
	begin();
	waits_at(TID, READ_PC, 64);
	/* Of each 10 ms it runs 3, could run for 2, waits for 5. */
	for (int i = 0; i < 1000; i++) {
		pass(10 * MS);
		runs(TID, 3 * MS);
		world.thread[TID].sched.delay_ns += 2 * MS;
	}
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 495);
	cr_assert_leq(world.weight, 502);
	kp_clock_destroy(clock_);
}

Test(wait, known_place_is_not_stopped_for_again)
{
	begin();
	for (int i = 0; i < 1000; i++) {
		waits_at(TID, i % 2 ? READ_PC : POLL_PC, i % 2 ? 64 : 128);
		pass(10 * MS);
		runs(TID, 1000);
	}
	cr_assert_leq(world.asked_count, 4);
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 990);
	cr_assert_leq(world.weight, 1000);
	kp_clock_destroy(clock_);
}

Test(wait, two_places_have_their_shares)
{
	uint64_t weight[2] = { 0 };

	begin();
	for (int i = 0; i < 3000; i++) {
		waits_at(TID, READ_PC, 64);
		pass(3 * MS);
		runs(TID, 1000);
		waits_at(TID, POLL_PC, 128);
		pass(9 * MS);
		runs(TID, 1000);
		for (uint32_t n = 0; n < world.samples; n++)
			weight[world.sample[n].leaf == READ_PC] += 1 + world.sample[n].overrun;
		world.samples = 0;
	}
	/* 1 : 3, looked at some 3600 times: within four sigma. */
	cr_assert_gt(weight[1] * 1000 / (weight[0] + weight[1]), 250 - 32);
	cr_assert_lt(weight[1] * 1000 / (weight[0] + weight[1]), 250 + 32);
	kp_clock_destroy(clock_);
}

Test(wait, same_call_with_another_stack_is_another_place)
{
	begin();
	waits_at(TID, READ_PC, 64);
	pass(100 * MS);
	cr_assert_eq(world.asked_count, 1);
	world.memory[1] = 7; /* a return address */
	runs(TID, 1000);
	pass(100 * MS);
	cr_assert_eq(world.asked_count, 2);
	/* Both are known from now on. */
	for (int i = 0; i < 20; i++) {
		world.memory[1] = i % 2 ? 7 : 0;
		runs(TID, 1000);
		pass(50 * MS);
	}
	cr_assert_eq(world.asked_count, 2);
	kp_clock_destroy(clock_);
}

Test(wait, without_stops_the_pc_is_all_there_is)
{
	begin();
	world.ask = KP_ASK_NEVER;
	waits_at(TID, READ_PC, 64);
	pass(3000 * MS);
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 298);
	cr_assert_leq(world.weight, 300);
	cr_assert_eq(world.sample[0].depth, 1);
	cr_assert_eq(world.sample[0].leaf, READ_PC);
	kp_clock_destroy(clock_);
}

Test(wait, stack_that_can_be_read_needs_no_stop)
{
	begin();
	world.readable = true;
	waits_at(TID, READ_PC, 64);
	pass(3000 * MS);
	runs(TID, 1000);
	pass(3000 * MS);
	clock_->ops->stop(clock_);
	cr_assert_eq(world.asked_count, 0);
	cr_assert_eq(world.read_count, 1);
	cr_assert_geq(world.weight, 598);
	cr_assert_eq(world.sample[0].depth, 2);
	kp_clock_destroy(clock_);
}

Test(wait, stack_that_is_not_whole_is_learned_anew)
{
	begin();
	waits_at(TID, READ_PC, 64);
	pass(1000 * MS);
	kp_wait_clock_relearn(clock_);
	pass(1000 * MS);
	cr_assert_eq(world.asked_count, 1); /* it was whole */
	waits_at(TID, POLL_PC, 128);
	runs(TID, 1000);
	world.walk_end = KP_WALK_MISALIGNED;
	pass(1000 * MS);
	cr_assert_eq(world.asked_count, 2);
	kp_wait_clock_relearn(clock_);
	pass(1000 * MS);
	cr_assert_eq(world.asked_count, 3);
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 398);
	kp_clock_destroy(clock_);
}

Test(wait, stop_that_was_refused_is_asked_for_again_later)
{
	begin();
	waits_at(TID, READ_PC, 64);
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 1);
	kp_wait_clock_seen(clock_, TID, NULL);
	pass(500 * MS);
	cr_assert_eq(world.asked_count, 1);
	pass(1000 * MS);
	cr_assert_eq(world.asked_count, 2);
	pass(1000 * MS);
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 248);
	cr_assert_leq(world.weight, 250);
	cr_assert_eq(world.sample[0].depth, 1);
	cr_assert_eq(world.sample[world.samples - 1].depth, 3);
	kp_clock_destroy(clock_);
}

Test(wait, too_many_threads_are_looked_at_less_often)
{
	begin();
	for (pid_t tid = 1; tid < WORLD_THREADS; tid++) {
		if (tid != TID)
			cr_assert_eq(clock_->ops->arm(clock_, tid, tid, &err), 0);
		waits_at(tid, READ_PC, 64);
	}
	/* One look a millisecond for 63 threads. */
	for (int i = 0; i < 2000; i++) {
		world.reads = 1;
		pass(MS);
	}
	world.samples = 0;
	clock_->ops->stop(clock_);
	cr_assert_geq(world.weight, 63 * 195);
	cr_assert_leq(world.weight, 63 * 200);
	kp_clock_destroy(clock_);
}

Test(wait, thread_that_ends_leaves_its_last_wait)
{
	begin();
	waits_at(TID, READ_PC, 64);
	pass(500 * MS);
	world.thread[TID].gone = true;
	clock_->ops->forget(clock_, TID);
	cr_assert_geq(world.weight, 47);
	cr_assert_leq(world.weight, 50);
	cr_assert_eq(clock_->ops->owner(clock_, TID), 0);
	kp_clock_destroy(clock_);
}

Test(wait, nothing_is_sampled_after_the_end)
{
	uint64_t weight;

	begin();
	waits_at(TID, READ_PC, 64);
	pass(500 * MS);
	clock_->ops->stop(clock_);
	weight = world.weight;
	world.now += 1000 * MS;
	clock_->ops->serve(clock_);
	clock_->ops->forget(clock_, TID);
	clock_->ops->stop(clock_);
	cr_assert_eq(world.weight, weight);
	cr_assert_eq(kp_wait_clock_due_ns(clock_), UINT64_MAX);
	kp_clock_destroy(clock_);
}

/* A kernel without the figure of how often a thread ran says 0. */
Test(wait, unknown_number_of_runs_is_no_proof_of_rest)
{
	begin();
	world.thread[TID].sched.runs = 0;
	waits_at(TID, READ_PC, 64);
	clock_->ops->serve(clock_);
	answer(TID);
	world.thread[TID].sched.runs = 0;
	world.now += 100 * MS;
	clock_->ops->serve(clock_);
	waits_at(TID, POLL_PC, 128);
	world.now += 100 * MS;
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 2);
	kp_clock_destroy(clock_);
}
