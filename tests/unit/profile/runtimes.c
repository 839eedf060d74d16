/* Weights come to the threads' run times: within bounds, exactly, and only where there are facts. */
#include "daemon/profile/runtimes.h"
#include "tests/support/test.h"

#include "proto/ring.h"

#define MS UINT64_C(1000000)

static const uint64_t pc[1];

static void clock_of(struct kp_runtimes *r, enum kp_sample_source source)
{
	struct kp_raw_record record = { .type = KP_RAW_CLOCK, .clock.source = source };

	cr_assert_eq(kp_runtimes_apply(r, &record, NULL), 0);
}

static void tally_of(struct kp_runtimes *r, uint32_t tid, uint64_t cpu_ns, uint64_t blind_ns,
		     uint32_t flags)
{
	struct kp_raw_record record = {
		.type = KP_RAW_TALLY,
		.tally = { .pid = 1,
			   .tid = tid,
			   .cpu_ns = cpu_ns,
			   .blind_ns = blind_ns,
			   .flags = flags },
	};

	cr_assert_eq(kp_runtimes_apply(r, &record, NULL), 0);
}

static void tally(struct kp_runtimes *r, uint32_t tid, uint64_t cpu_ns, uint64_t blind_ns)
{
	tally_of(r, tid, cpu_ns, blind_ns, 0);
}

static void final_tally(struct kp_runtimes *r, uint32_t tid, uint64_t cpu_ns, uint64_t blind_ns)
{
	tally_of(r, tid, cpu_ns, blind_ns, KP_TALLY_ENDED);
}

static struct kp_raw_sample sample_of(uint32_t tid, uint64_t weight_ns)
{
	return (struct kp_raw_sample){ .pid = 1,
				       .tid = tid,
				       .weight_ns = weight_ns,
				       .depth = 1,
				       .source = KP_SOURCE_EVENT,
				       .pc = pc };
}

static void samples(struct kp_runtimes *r, uint32_t tid, uint64_t weight_ns, int n)
{
	struct kp_raw_record record = { .type = KP_RAW_SAMPLE,
					.sample = sample_of(tid, weight_ns) };

	while (n--)
		cr_assert_eq(kp_runtimes_apply(r, &record, NULL), 0);
}

/* The sum of the weights that n samples of the thread get. */
static uint64_t weigh(struct kp_runtimes *r, uint32_t tid, uint64_t weight_ns, int n)
{
	struct kp_raw_sample sample = sample_of(tid, weight_ns);
	uint64_t sum = 0;

	while (n--)
		sum += kp_runtimes_weight(r, &sample);
	return sum;
}

Test(runtimes, with_events_weights_come_to_the_run_time_exactly)
{
	struct kp_runtimes r = { 0 };

	clock_of(&r, KP_SOURCE_EVENT);
	samples(&r, 7, 1001001, 7);
	tally(&r, 7, 9999999, 0);
	samples(&r, 8, 1001001, 3);
	tally(&r, 8, 2500001, 0);
	kp_runtimes_finish(&r);
	cr_assert_eq(weigh(&r, 7, 1001001, 7), 9999999);
	cr_assert_eq(weigh(&r, 8, 1001001, 3), 2500001);
	kp_runtimes_deinit(&r);
}

Test(runtimes, a_thread_that_was_hardly_seen_is_not_explained_by_it)
{
	struct kp_runtimes r = { 0 };

	clock_of(&r, KP_SOURCE_EVENT);
	samples(&r, 7, MS, 1);
	tally(&r, 7, 100 * MS, 0);
	samples(&r, 8, MS, 10);
	tally(&r, 8, MS, 0);
	kp_runtimes_finish(&r);
	cr_assert_eq(weigh(&r, 7, MS, 1), 3 * MS);
	cr_assert_eq(weigh(&r, 8, MS, 10), 5 * MS);
	kp_runtimes_deinit(&r);
}

Test(runtimes, with_timers_only_blind_time_is_made_up_for)
{
	struct kp_runtimes r = { 0 };

	clock_of(&r, KP_SOURCE_TIMER);
	samples(&r, 7, 10 * MS, 3); /* as it happens: 32 ms were expected */
	final_tally(&r, 7, 40 * MS, 8 * MS);
	samples(&r, 8, 10 * MS, 2);
	final_tally(&r, 8, 5 * MS, 0);
	/* Not beyond what it ran. */
	samples(&r, 9, 10 * MS, 4);
	final_tally(&r, 9, 40 * MS, 8 * MS);
	samples(&r, 10, 10 * MS, 3);
	final_tally(&r, 10, 35 * MS, 15 * MS);
	/* Last seen when it had hardly begun; nobody was told of its end. */
	samples(&r, 11, 10 * MS, 9);
	tally(&r, 11, 5 * MS, 4 * MS);
	kp_runtimes_finish(&r);
	cr_assert_eq(weigh(&r, 7, 10 * MS, 3), 37500000);
	cr_assert_eq(weigh(&r, 8, 10 * MS, 2), 20 * MS);
	cr_assert_eq(weigh(&r, 9, 10 * MS, 4), 40 * MS);
	cr_assert_eq(weigh(&r, 10, 10 * MS, 3), 35 * MS);
	cr_assert_eq(weigh(&r, 11, 10 * MS, 9), 94 * MS);
	kp_runtimes_deinit(&r);
}

Test(runtimes, without_a_tally_weights_are_as_they_were)
{
	struct kp_runtimes r = { 0 };
	struct kp_raw_sample stranger = sample_of(9, 5), wait = sample_of(7, 6);

	clock_of(&r, KP_SOURCE_EVENT);
	samples(&r, 7, MS, 3);
	kp_runtimes_finish(&r);
	wait.source = KP_SOURCE_WAIT;
	cr_assert_eq(kp_runtimes_weight(&r, &wait), 6);
	cr_assert_eq(kp_runtimes_weight(&r, &stranger), 5);
	cr_assert_eq(weigh(&r, 7, MS, 3), 3 * MS);
	kp_runtimes_deinit(&r);
}

Test(runtimes, one_number_for_several_threads_is_one_sum)
{
	struct kp_runtimes r = { 0 };

	clock_of(&r, KP_SOURCE_EVENT);
	samples(&r, 7, MS, 2);
	tally(&r, 7, 3 * MS, 0);
	samples(&r, 7, MS, 2);
	tally(&r, 7, 3 * MS, 0);
	kp_runtimes_finish(&r);
	cr_assert_eq(weigh(&r, 7, MS, 4), 6 * MS);
	cr_assert_eq(kp_runtimes_find(&r, 7, 1), NULL);
	cr_assert_eq(kp_runtimes_find(&r, 1, 7)->samples, 4);
	kp_runtimes_deinit(&r);
}
