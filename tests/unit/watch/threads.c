/* Unit tests of who came and who went, on the threads of this process. */
#include "daemon/watch/threads.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HANDS 6

static struct kp_threads threads;
static struct kp_err err;
static char events[256];

/* One letter an event: who it is, capital for "came"; '.' for those of the test runner. */
static pid_t hand_tid[HANDS];

static int note(void *ctx, const struct kp_thread *thread, bool came, struct kp_err *e)
{
	char text[2] = ".";

	(void)e;
	for (int i = 0; i < HANDS; i++)
		if (thread->tid == __atomic_load_n(&hand_tid[i], __ATOMIC_ACQUIRE))
			text[0] = (char)((came ? 'A' : 'a') + i);
	cr_assert_eq(thread->tid, thread->ns_tid);
	cr_assert(!came || thread->comm[0]);
	if (text[0] != '.')
		strcat(events, text);
	return *(int *)ctx;
}

static const char *poll_threads(void)
{
	int result = 0;

	events[0] = 0;
	cr_assert_eq(kp_threads_poll(&threads, note, &result, &err), 0);
	return events;
}

static pthread_t hand[HANDS];
static int gate[HANDS][2];

static void *wait_at_gate(void *arg)
{
	int i = *(int *)arg;
	char byte;

	prctl(PR_SET_NAME, "hand");
	__atomic_store_n(&hand_tid[i], gettid(), __ATOMIC_RELEASE);
	return read(gate[i][0], &byte, 1) == 1 ? arg : NULL;
}

static void come(int i)
{
	static int number[HANDS];

	number[i] = i;
	cr_assert_eq(pipe(gate[i]), 0);
	pthread_create(&hand[i], NULL, wait_at_gate, &number[i]);
	while (!__atomic_load_n(&hand_tid[i], __ATOMIC_ACQUIRE))
		usleep(100);
}

static void go(int i)
{
	char path[64];

	cr_assert_eq(write(gate[i][1], "x", 1), 1);
	pthread_join(hand[i], NULL);
	/* The kernel lets joiners go before the thread leaves /proc. */
	snprintf(path, sizeof(path), "/proc/self/task/%d", hand_tid[i]);
	while (access(path, F_OK) == 0)
		usleep(100);
}

static void begin(void)
{
	kp_threads_init(&threads, getpid(), getpid());
	poll_threads();
}

Test(threads, first_look_finds_all)
{
	kp_threads_init(&threads, getpid(), getpid());
	come(0);
	come(1);
	cr_assert_str_eq(poll_threads(), "AB");
	cr_assert_geq(threads.count, 3);
	cr_assert_eq(threads.seen, threads.count);
	cr_assert_str_eq(poll_threads(), "");
	go(0);
	go(1);
}

Test(threads, those_that_came_and_went_are_told_apart)
{
	size_t before;

	begin();
	before = threads.count;
	come(0);
	come(1);
	come(2);
	cr_assert_str_eq(poll_threads(), "ABC");
	go(1);
	cr_assert_str_eq(poll_threads(), "b");
	come(3);
	go(0);
	go(2);
	come(4);
	cr_assert_str_eq(poll_threads(), "acDE");
	cr_assert_eq(threads.count, before + 2);
	cr_assert_eq(threads.seen, before + 5);
	for (size_t i = 1; i < threads.count; i++)
		cr_assert_lt(threads.thread[i - 1].tid, threads.thread[i].tid);
	go(3);
	go(4);
	cr_assert_str_eq(poll_threads(), "de");
	kp_threads_deinit(&threads);
}

static const char *tell_of(pid_t tid)
{
	int result = 0;

	events[0] = 0;
	cr_assert_eq(kp_threads_born(&threads, tid, note, &result, &err), 0);
	return events;
}

Test(threads, one_that_is_told_of_comes_at_once_and_only_once)
{
	size_t before;

	begin();
	before = threads.count;
	come(0);
	cr_assert_str_eq(tell_of(hand_tid[0]), "A");
	cr_assert_str_eq(tell_of(hand_tid[0]), "");
	cr_assert_str_eq(poll_threads(), "");
	cr_assert_eq(threads.count, before + 1);
	for (size_t i = 1; i < threads.count; i++)
		cr_assert_lt(threads.thread[i - 1].tid, threads.thread[i].tid);
	go(0);
	cr_assert_str_eq(poll_threads(), "a");
	/* Its end is known before its birth is heard of. */
	cr_assert_str_eq(tell_of(hand_tid[0]), "");
	cr_assert_eq(threads.count, before);
	cr_assert_eq(threads.seen, before + 2);
	kp_threads_deinit(&threads);
}

Test(threads, process_that_is_gone_has_lost_all)
{
	int result = 0;

	begin();
	come(0);
	poll_threads();
	threads.pid = INT32_MAX;
	events[0] = 0;
	cr_assert_eq(kp_threads_poll(&threads, note, &result, &err), 0);
	cr_assert_str_eq(events, "a");
	cr_assert_eq(threads.count, 0);
	go(0);
}

Test(threads, error_of_the_listener_is_passed_up)
{
	int result = -KP_ENOMEM;

	kp_threads_init(&threads, getpid(), getpid());
	cr_assert_eq(kp_threads_poll(&threads, note, &result, &err), -KP_ENOMEM);
	kp_threads_deinit(&threads);
}
