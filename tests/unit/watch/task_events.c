/*
 * Unit tests of what the kernel says of tasks, on a child of this test. Where the system allows no
 * perf events they say so and prove nothing.
 */
#include "daemon/watch/task_events.h"
#include "tests/support/test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define EVENTS_MAX 400

static struct kp_task_events *events;
static struct kp_err err;
static struct kp_task_event seen[EVENTS_MAX];
static int count;
static pid_t child;
static int gate[2];

static int note(void *ctx, const struct kp_task_event *event, struct kp_err *e)
{
	(void)ctx, (void)e;
	if (count < EVENTS_MAX && event->type != KP_TASK_MMAP)
		seen[count++] = *event;
	return 0;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void burn(uint64_t ns)
{
	uint64_t start_ns = own_cpu_ns();

	while (own_cpu_ns() - start_ns < ns)
		;
}

static void *burn_2_ms(void *arg)
{
	burn(2 * MS);
	return arg;
}

/* Two threads, one after the other, and a child with another one. */
static void live(void)
{
	pthread_t thread;
	pid_t grandchild;

	for (int i = 0; i < 2; i++) {
		pthread_create(&thread, NULL, burn_2_ms, NULL);
		pthread_join(thread, NULL);
	}
	grandchild = fork();
	if (grandchild == 0) {
		prctl(PR_SET_NAME, "grandchild");
		pthread_create(&thread, NULL, burn_2_ms, NULL);
		pthread_join(thread, NULL);
		_exit(0);
	}
	waitpid(grandchild, NULL, 0);
}

/* A child that waits until it is let go. False where there are no events. */
static bool begin(bool threads_only, void (*life)(void))
{
	char go;

	if (kp_task_events_create(threads_only, &events, &err) < 0) {
		fprintf(stderr, "skipped: %s\n", err.text);
		return false;
	}
	cr_assert_eq(pipe(gate), 0);
	child = fork();
	if (child == 0) {
		if (read(gate[0], &go, 1) == 1)
			life();
		_exit(0);
	}
	cr_assert_eq(kp_task_events_add(events, child, &err), 0);
	cr_assert_eq(kp_task_events_add(events, child, &err), 0); /* once is enough */
	return true;
}

static void read_until_end(void)
{
	struct pollfd readable = { .fd = kp_task_events_fd(events), .events = POLLIN };
	bool ended = false;

	cr_assert_eq(write(gate[1], "g", 1), 1);
	while (!ended) {
		poll(&readable, 1, 10);
		ended = waitpid(child, NULL, WNOHANG) == child;
		cr_assert_eq(kp_task_events_read(events, note, NULL, &err), 0);
	}
}

static int number(enum kp_task_event_type type, bool threads)
{
	int n = 0;

	for (int i = 0; i < count; i++)
		n += seen[i].type == type && (seen[i].tid != seen[i].pid) == threads;
	return n;
}

/* How long the threads of a process ran that were not added themselves. */
static uint64_t ran_ns_of(pid_t pid)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		if (seen[i].type == KP_TASK_RAN && seen[i].pid == pid && seen[i].since_birth)
			sum += seen[i].ran_ns;
	return sum;
}

Test(task_events, tells_of_descendants_and_how_long_they_ran)
{
	pid_t grandchild = 0;

	if (!begin(false, live))
		return;
	read_until_end();
	cr_assert_eq(number(KP_TASK_FORK, false), 1);
	cr_assert_geq(number(KP_TASK_FORK, true), 2);
	if (!kp_task_events_inherits(events)) {
		kp_task_events_destroy(events);
		return;
	}
	cr_assert_eq(number(KP_TASK_FORK, true), 3);
	cr_assert_eq(number(KP_TASK_EXIT, true), 3);
	cr_assert_eq(number(KP_TASK_EXIT, false), 2);
	cr_assert_eq(number(KP_TASK_RAN, true), 3);
	cr_assert_eq(number(KP_TASK_RAN, false), 2);
	for (int i = 0; i < count; i++) {
		if (seen[i].type == KP_TASK_NAME)
			cr_assert_str_eq(seen[i].comm, "grandchild");
		if (seen[i].type != KP_TASK_RAN)
			continue;
		if (seen[i].pid != child)
			grandchild = seen[i].pid;
		cr_assert_eq(seen[i].since_birth, seen[i].tid != child);
		/* It was born before it ran. */
		for (int k = i; k < count; k++)
			cr_assert(seen[k].type != KP_TASK_FORK || seen[k].tid != seen[i].tid);
	}
	/* Between threads that switch to each other the kernel may exchange a little. */
	cr_assert_geq(ran_ns_of(child), 3 * MS);
	cr_assert_geq(ran_ns_of(grandchild), 3 * MS / 2);
	kp_task_events_destroy(events);
}

Test(task_events, leaves_processes_alone_where_threads_are_asked_for)
{
	if (!begin(true, live))
		return;
	read_until_end();
	cr_assert_eq(number(KP_TASK_FORK, false), 1);
	for (int i = 0; i < count; i++)
		cr_assert_eq(seen[i].type == KP_TASK_FORK || seen[i].pid == child, true);
	kp_task_events_destroy(events);
}

static void burn_20_ms(void)
{
	burn(20 * MS);
}

Test(task_events, knows_how_long_an_added_thread_has_run)
{
	uint64_t before_ns = 0, ran_ns = 0;

	if (!begin(false, burn_20_ms))
		return;
	cr_assert(kp_task_events_ran(events, child, &before_ns));
	cr_assert(!kp_task_events_ran(events, getpid(), &ran_ns));
	read_until_end();
	for (int i = 0; i < count; i++) {
		if (seen[i].type == KP_TASK_RAN && seen[i].tid == child) {
			ran_ns = seen[i].ran_ns;
			cr_assert(!seen[i].since_birth);
		}
	}
	cr_assert_geq(ran_ns, before_ns + 19 * MS);
	cr_assert(!kp_task_events_ran(events, child, &ran_ns));
	kp_task_events_destroy(events);
}

static void exec_true(void)
{
	execl("/bin/true", "true", (char *)NULL);
}

Test(task_events, tells_of_an_exec_by_name)
{
	if (!begin(false, exec_true))
		return;
	read_until_end();
	cr_assert_eq(number(KP_TASK_EXEC, false), 1);
	for (int i = 0; i < count; i++)
		if (seen[i].type == KP_TASK_EXEC)
			cr_assert_str_eq(seen[i].comm, "true");
	cr_assert_eq(number(KP_TASK_RAN, false), 1);
	kp_task_events_destroy(events);
}

Test(task_events, does_not_add_what_has_ended)
{
	pid_t pid;
	int r;

	if (!begin(false, exec_true))
		return;
	read_until_end();
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	r = kp_task_events_add(events, pid, &err);
	cr_assert_eq(r, -KP_EGONE);
	kp_task_events_destroy(events);
}
