/* Unit tests of how long threads ran, on this test's own thread and on made-up ones. */
#include "daemon/session/tally.h"
#include "tests/unit/session/book.h"

#include "daemon/linux/monotonic.h"

#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define NOBODY ((pid_t)0x3ffffff0) /* no such thread */

static struct page page;
static struct kp_tally tally;
static struct kp_err err;
static struct kp_raw_record record[8];

static void begin(bool born)
{
	page_begin(&page);
	kp_tally_init(&tally, &page.book, getpid(), born);
}

static const struct kp_raw_tally *only_record(void)
{
	cr_assert_eq(page_read(&page, record, 8), 1);
	cr_assert_eq(record[0].type, KP_RAW_TALLY);
	return &record[0].tally;
}

static void tell_ran(pid_t tid, uint64_t ran_ns)
{
	struct kp_task_event event = { .type = KP_TASK_RAN,
				       .pid = getpid(),
				       .tid = tid,
				       .ran_ns = ran_ns,
				       .since_birth = true };

	cr_assert(kp_tally_ran(&tally, &event));
}

/* CPU time in the kernel's books: they are brought up to date when the thread gives up the CPU. */
static void burn(uint64_t ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t)(now.tv_sec - start.tv_sec) * 1000 * MS + (uint64_t)now.tv_nsec -
		       (uint64_t)start.tv_nsec <
	       ns);
	usleep(1000);
}

Test(tally, counts_from_the_moment_when_a_thread_was_met)
{
	const struct kp_raw_tally *t;

	burn(20 * MS);
	begin(false);
	cr_assert_eq(kp_tally_meet(&tally, gettid(), true, &err), 0);
	cr_assert_eq(kp_tally_meet(&tally, gettid(), true, &err), 0);
	kp_tally_clocked_now(&tally, gettid());
	burn(20 * MS);
	cr_assert_eq(kp_tally_put_all(&tally, true, &err), 0);
	t = only_record();
	cr_assert_eq(t->tid, (uint32_t)gettid());
	cr_assert_geq(t->cpu_ns, 19 * MS);
	cr_assert_leq(t->cpu_ns, 35 * MS);
	cr_assert_leq(t->blind_ns, 5 * MS);
	cr_assert_eq(t->flags, KP_TALLY_PRESENT);
	cr_assert_eq(page.sums.threads_seen, 1);
	cr_assert_eq(page.sums.missed, 0);
}

Test(tally, counts_all_of_a_thread_that_was_born)
{
	const struct kp_raw_tally *t;

	begin(false);
	burn(10 * MS);
	cr_assert_eq(kp_tally_meet(&tally, gettid(), false, &err), 0);
	burn(10 * MS);
	kp_tally_clocked_now(&tally, gettid());
	cr_assert_eq(kp_tally_put_all(&tally, true, &err), 0);
	t = only_record();
	cr_assert_geq(t->cpu_ns, 19 * MS);
	cr_assert_geq(t->blind_ns, 19 * MS);
}

Test(tally, believes_the_kernel_when_a_thread_has_ended)
{
	const struct kp_raw_tally *t;

	begin(false);
	kp_tally_meet(&tally, NOBODY, false, &err);
	kp_tally_find(&tally, NOBODY)->clocked = true;
	kp_tally_find(&tally, NOBODY)->covered_ns = 4 * MS;
	tell_ran(NOBODY, 5 * MS);
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	cr_assert_eq(page_read(&page, record, 8), 0);
	kp_tally_gone(&tally, NOBODY);
	cr_assert(kp_tally_is_waiting(&tally));
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	cr_assert_not(kp_tally_is_waiting(&tally));
	t = only_record();
	cr_assert_eq(t->cpu_ns, 5 * MS);
	cr_assert_eq(t->blind_ns, 1 * MS);
	cr_assert_eq(t->flags, KP_TALLY_ENDED);
	cr_assert_eq(page.sums.missed, 0);
	cr_assert_eq(kp_tally_cpu_ns(&tally), 5 * MS);
}

Test(tally, counts_what_ended_without_a_clock_as_missed)
{
	begin(false);
	kp_tally_meet(&tally, NOBODY, false, &err);
	tell_ran(NOBODY, 3 * MS);
	kp_tally_gone(&tally, NOBODY);
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	cr_assert_eq(only_record()->blind_ns, 3 * MS);
	cr_assert_eq(page.sums.missed, 1);
	cr_assert_eq(page.sums.missed_cpu_ns, 3 * MS);
	cr_assert_eq(kp_tally_put_stranger(&page.book, 1, 2, 4 * MS, &err), 0);
	cr_assert_eq(page.sums.missed, 2);
	cr_assert_eq(page.sums.missed_cpu_ns, 7 * MS);
	cr_assert_eq(page.sums.threads_seen, 2);
}

Test(tally, names_what_had_no_clock_and_lives)
{
	begin(false);
	kp_tally_meet(&tally, gettid(), false, &err);
	cr_assert_eq(kp_tally_put_all(&tally, true, &err), 0);
	cr_assert_eq(only_record()->flags, KP_TALLY_PRESENT | KP_TALLY_UNARMED);
	begin(false);
	kp_tally_meet(&tally, gettid(), false, &err);
	kp_tally_find(&tally, gettid())->flags = KP_TALLY_BLOCKED;
	cr_assert_eq(kp_tally_put_all(&tally, true, &err), 0);
	cr_assert_eq(only_record()->flags, KP_TALLY_PRESENT | KP_TALLY_BLOCKED);
}

/* The two records of the process's main thread are its program before and the one after. */
Test(tally, divides_a_process_by_its_programs)
{
	begin(true);
	kp_tally_meet(&tally, getpid(), true, &err);
	burn(5 * MS);
	kp_tally_meet(&tally, NOBODY, false, &err);
	cr_assert_eq(kp_tally_exec(&tally, 0, &err), 0);
	cr_assert_eq(page_read(&page, record, 8), 2);
	cr_assert_eq(record[0].tally.tid, (uint32_t)getpid());
	cr_assert_geq(record[0].tally.cpu_ns, 4 * MS);
	tell_ran(getpid(), record[0].tally.cpu_ns + 7 * MS);
	kp_tally_gone_all(&tally);
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	cr_assert_eq(page_read(&page, record, 8), 3);
	cr_assert_eq(record[2].tally.cpu_ns, 7 * MS);
	cr_assert_eq(record[2].tally.blind_ns, 7 * MS);
	cr_assert_eq(page.sums.threads_seen, 2);
}

/* Nothing is known of it yet but when it was born and that it has not waited for a CPU since. */
Test(tally, takes_a_newborn_to_have_run_until_its_exec)
{
	struct kp_tally_thread *thread;
	uint64_t now = kp_now_ns();

	begin(true);
	tally.pid = NOBODY;
	kp_tally_meet(&tally, NOBODY, true, &err);
	thread = kp_tally_find(&tally, NOBODY);
	thread->since_ns = now - 3 * MS;
	thread->delay_ns = 500000;
	cr_assert_eq(kp_tally_exec(&tally, now - 1 * MS, &err), 0);
	cr_assert_eq(only_record()->cpu_ns, 2 * MS - 500000);
	cr_assert_eq(kp_tally_find(&tally, NOBODY)->start_ns, 2 * MS - 500000);
}

Test(tally, gives_a_number_that_is_used_again_to_the_first_one)
{
	begin(false);
	kp_tally_meet(&tally, NOBODY, false, &err);
	kp_tally_gone(&tally, NOBODY);
	kp_tally_meet(&tally, NOBODY, false, &err);
	tell_ran(NOBODY, 1 * MS);
	tell_ran(NOBODY, 2 * MS);
	kp_tally_gone(&tally, NOBODY);
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	cr_assert_eq(page_read(&page, record, 8), 2);
	cr_assert_eq(record[0].tally.cpu_ns, 1 * MS);
	cr_assert_eq(record[1].tally.cpu_ns, 2 * MS);
}

/* ---- early samples ---- */

Test(tally, early_samples_count_until_a_thread_has_its_own_clock)
{
	const struct kp_tally_thread *thread;

	begin(true);
	cr_assert_eq(kp_tally_meet(&tally, NOBODY, false, &err), 0);
	cr_assert_not(
		kp_tally_is_early(&tally, NOBODY)); /* its clocks are started when it is met */
	kp_tally_begin_early(&tally, NOBODY, true);
	cr_assert(kp_tally_is_early(&tally, NOBODY));
	kp_tally_end_early(&tally, NOBODY);
	cr_assert_not(kp_tally_is_early(&tally, NOBODY));
	thread = kp_tally_find(&tally, NOBODY);
	cr_assert_leq(thread->early_until_ns, kp_now_ns());
	cr_assert(thread->clocked);
	cr_assert_not(kp_tally_is_early(&tally, NOBODY - 1));
}

Test(tally, a_thread_with_early_samples_from_its_birth_is_not_missed)
{
	const struct kp_raw_tally *t;

	begin(true);
	cr_assert_eq(kp_tally_meet(&tally, NOBODY, false, &err), 0);
	kp_tally_begin_early(&tally, NOBODY, true);
	kp_tally_gone(&tally, NOBODY);
	cr_assert_null(kp_tally_find(&tally, NOBODY));
	cr_assert(kp_tally_find_running(&tally, NOBODY)); /* samples may be on their way */
	tell_ran(NOBODY, 2 * MS);
	cr_assert_null(kp_tally_find_running(&tally, NOBODY));
	cr_assert_eq(kp_tally_put_gone(&tally, &err), 0);
	t = only_record();
	cr_assert_eq(t->cpu_ns, 2 * MS);
	cr_assert_eq(t->blind_ns, 0);
	cr_assert_eq(page.sums.missed, 0);
}
