/* Unit tests of processes that were over before anybody saw them. */
#include "daemon/session/passed.h"
#include "tests/unit/session/book.h"

#define MS UINT64_C(1000000)

static struct page page;
static struct kp_passed passed;
static struct kp_err err;
static struct kp_raw_record record[16];

static uint64_t tell(enum kp_task_event_type type, pid_t pid, pid_t tid, uint64_t ran_ns,
		     const char *comm)
{
	struct kp_task_event event = { .type = type, .pid = pid, .tid = tid, .ran_ns = ran_ns };
	uint64_t cpu_ns;

	strcpy(event.comm, comm);
	cr_assert_eq(kp_passed_event(&passed, &page.book, &event, &cpu_ns, &err), 0);
	return cpu_ns;
}

static void expect_name(const struct kp_raw_string *name, const char *expected)
{
	cr_assert_eq(name->len, strlen(expected));
	cr_assert_eq(memcmp(name->text, expected, name->len), 0);
}

Test(passed, writes_what_the_kernel_told_of_them)
{
	page_begin(&page);
	cr_assert_eq(kp_passed_add(&passed, 100, "sh", &err), 0);
	cr_assert_eq(kp_passed_add(&passed, 200, "sh", &err), 0);
	cr_assert_eq(tell(KP_TASK_EXEC, 100, 100, 0, "tool"), 0);
	cr_assert_eq(tell(KP_TASK_RAN, 100, 101, 2 * MS, ""), 2 * MS);
	cr_assert_eq(tell(KP_TASK_RAN, 100, 100, 3 * MS, ""), 3 * MS);
	cr_assert_eq(tell(KP_TASK_RAN, 100, 100, 3 * MS, ""), 0); /* it is gone */
	cr_assert_eq(tell(KP_TASK_RAN, 200, 200, 1 * MS, ""), 1 * MS);
	cr_assert_eq(page_read(&page, record, 16), 8);
	cr_assert_eq(record[0].type, KP_RAW_PROCESS);
	expect_name(&record[0].process.comm, "tool");
	cr_assert_eq(record[1].type, KP_RAW_THREAD);
	cr_assert_eq(record[2].type, KP_RAW_THREAD);
	cr_assert_eq(record[3].type, KP_RAW_TALLY);
	cr_assert_eq(record[3].tally.tid, 101);
	cr_assert_eq(record[4].tally.cpu_ns, 3 * MS);
	expect_name(&record[5].process.comm, "sh");
	cr_assert_eq(page.sums.missed, 3);
	cr_assert_eq(page.sums.missed_cpu_ns, 6 * MS);
	kp_passed_deinit(&passed);
}

Test(passed, knows_nothing_of_others)
{
	page_begin(&page);
	cr_assert_eq(tell(KP_TASK_RAN, 100, 100, 3 * MS, ""), 0);
	cr_assert_eq(page_read(&page, record, 16), 0);
}
