/* Unit tests of the clock of threads that block the signal: when it looks, and what a sample weighs. */
#include "world.h"

#define MS UINT64_C(1000000)
#define PERIOD (10 * MS)
#define TID 5

static struct kp_clock *clock_;
static struct kp_err err;

static void begin(void)
{
	world_begin();
	cr_assert_eq(kp_stop_clock_create(&world_outside, PERIOD, &clock_, &err), 0);
	cr_assert_eq(clock_->ops->arm(clock_, TID, TID, &err), 0);
}

static bool in_call;

static void answer(void)
{
	uint64_t pc[] = { 0x1000, 0x2000 };
	struct kp_sight sight = {
		.sp = 64, .pc = pc, .depth = 2, .sched = world.thread[TID].sched, .in_call = in_call
	};

	world.thread[TID].stale = false;
	kp_stop_clock_seen(clock_, TID, &sight);
}

/* A millisecond of time passes, of which the thread runs so much. Every look is answered at once. */
static void pass(uint64_t run_ns)
{
	uint32_t asked = world.asked_count;

	world.now += MS;
	world.thread[TID].sched.cpu_ns += run_ns;
	clock_->ops->serve(clock_);
	if (world.asked_count != asked)
		answer();
}

Test(stop, weight_is_the_cpu_time_that_passed)
{
	begin();
	for (int i = 0; i < 1000; i++)
		pass(MS);
	cr_assert_geq(world.weight, 99);
	cr_assert_leq(world.weight, 100);
	cr_assert_geq(world.samples, 90);
	cr_assert_eq(world.sample[0].tid, TID);
	cr_assert_eq(world.sample[0].depth, 2);
	kp_clock_destroy(clock_);
}

Test(stop, remainder_is_carried_on)
{
	begin();
	/* 700 us each millisecond: no multiple of the period at any look. */
	for (int i = 0; i < 1000; i++)
		pass(700000);
	cr_assert_geq(world.weight, 69);
	cr_assert_leq(world.weight, 70);
	kp_clock_destroy(clock_);
}

Test(stop, thread_that_does_not_run_is_not_looked_at)
{
	begin();
	for (int i = 0; i < 1000; i++)
		pass(0);
	cr_assert_eq(world.samples, 0);
	cr_assert_leq(world.asked_count, 1); /* to see that it has not run */
	world.asked_count = 0;
	/* Asleep, it is not, whatever it has used before it went to sleep. */
	world.thread[TID].where.place = KP_PLACE_SYSCALL;
	world.thread[TID].sched.cpu_ns += 5 * PERIOD;
	for (int i = 0; i < 1000; i++)
		pass(0);
	cr_assert_eq(world.asked_count, 0);
	cr_assert_eq(world.samples, 0);
	/* It counts when the thread is met running again. */
	world.thread[TID].where.place = KP_PLACE_RUNNING;
	for (int i = 0; i < 30; i++)
		pass(1000);
	cr_assert_geq(world.weight, 5);
	cr_assert_leq(world.weight, 6);
	kp_clock_destroy(clock_);
}

Test(stop, figure_that_stands_still_between_ticks_is_made_up_for)
{
	struct world_thread *t = &world.thread[TID];

	begin();
	/* The kernel's figure of a thread that runs moves every 40 ms only. */
	for (int i = 0; i < 400; i++) {
		if (i % 40 == 0)
			t->seen_cpu_ns = t->sched.cpu_ns;
		t->stale = true;
		pass(MS);
		t->seen_cpu_ns = t->stale ? t->seen_cpu_ns : t->sched.cpu_ns;
	}
	cr_assert_geq(world.weight, 38);
	cr_assert_leq(world.weight, 40);
	cr_assert_geq(world.samples, 30);
	kp_clock_destroy(clock_);
}

Test(stop, idle_thread_is_asked_for_less_and_less_often)
{
	begin();
	for (int i = 0; i < 100; i++)
		pass(0);
	world.thread[TID].where.place = KP_PLACE_SYSCALL;
	for (int i = 0; i < 100; i++)
		pass(0);
	cr_assert_gt(kp_stop_clock_due_ns(clock_), world.now);
	cr_assert_leq(kp_stop_clock_due_ns(clock_), world.now + 30 * MS);
	kp_clock_destroy(clock_);
}

Test(stop, thread_that_has_just_woken_up_is_not_charged_to_its_sleep)
{
	begin();
	world.thread[TID].sched.cpu_ns += 2 * PERIOD;
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 1);
	/* It got a CPU only to stop, in the call that it had slept in. */
	in_call = true;
	world.thread[TID].sched.runs++;
	answer();
	cr_assert_eq(world.samples, 0);
	/* In a call, and on a CPU all along. */
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 2);
	answer();
	cr_assert_eq(world.samples, 1);
	cr_assert_geq(world.weight, 2);
	/* In user mode, taken off its CPU. */
	world.thread[TID].sched.cpu_ns += 2 * PERIOD;
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	in_call = false;
	world.thread[TID].sched.runs++;
	answer();
	cr_assert_eq(world.samples, 2);
	kp_clock_destroy(clock_);
}

Test(stop, look_that_showed_nothing_is_made_again)
{
	begin();
	world.thread[TID].sched.cpu_ns += 3 * PERIOD;
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 1);
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 1);
	kp_stop_clock_seen(clock_, TID, NULL);
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	cr_assert_eq(world.asked_count, 2);
	answer();
	cr_assert_geq(world.weight, 3);
	kp_clock_destroy(clock_);
}

Test(stop, forgotten_thread_gets_no_more_samples)
{
	begin();
	world.thread[TID].sched.cpu_ns += 3 * PERIOD;
	world.now += PERIOD;
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->ops->owner(clock_, TID), TID);
	clock_->ops->forget(clock_, TID);
	cr_assert_eq(clock_->ops->owner(clock_, TID), 0);
	answer();
	cr_assert_eq(world.samples, 0);
	cr_assert_eq(kp_stop_clock_due_ns(clock_), UINT64_MAX);
	kp_clock_destroy(clock_);
}

Test(stop, refusal_is_tried_again_later)
{
	begin();
	world.ask = KP_ASK_NEVER;
	for (int i = 0; i < 100; i++)
		pass(MS);
	cr_assert_eq(world.samples, 0);
	world.ask = KP_ASK_DONE;
	for (int i = 0; i < 50; i++)
		pass(MS);
	cr_assert_geq(world.weight, 13);
	cr_assert_leq(world.weight, 15);
	kp_clock_destroy(clock_);
}
