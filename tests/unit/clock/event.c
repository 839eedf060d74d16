/*
 * Unit tests of the clocks that are perf events, on threads of this test. Where the system allows
 * no such events they say so and prove nothing.
 */
#include "daemon/clock/clock.h"
#include "daemon/clock/perf_event.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS UINT64_C(1000000)

/* As if the agent were in this process: its head, where the mapping says. */
static struct kp_shm_head head = { .magic = KP_SHM_MAGIC };

static struct kp_clock *clock_;
static struct kp_err err;
static volatile sig_atomic_t signals, strangers, last_fd;
static volatile uint64_t work;

static void note(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	last_fd = info->si_fd;
	strangers += info->si_code != POLL_IN;
	signals++;
}

static uint64_t agent(void)
{
	return (uint64_t)(uintptr_t)&head - KP_SHM_HEAD_OFFSET;
}

static bool begin_with(uint64_t period_ns)
{
	struct kp_event_period period = { KP_EVENT_TASK_CLOCK, period_ns, period_ns };
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART };

	if (kp_perf_event_probe(KP_EVENT_TASK_CLOCK, &err) < 0) {
		fprintf(stderr, "skipped: %s\n", err.text);
		return false;
	}
	sigaction(SIGURG, &action, NULL);
	return kp_event_clock_create(getpid(), agent(), SIGURG, &period, &clock_, &err) == 0;
}

static bool begin(void)
{
	return begin_with(PERIOD_NS);
}

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	pthread_sigmask(how, &set, NULL);
}

/* Until n signals have come; meson bounds it. */
static void burn_until(sig_atomic_t n)
{
	while (signals < n)
		work++;
}

Test(event, signals_the_thread_while_it_runs)
{
	if (!begin())
		return;
	cr_assert_str_eq(clock_->ops->name, "task-clock");
	cr_assert_eq(clock_->ops->source, KP_SOURCE_EVENT);
	cr_assert_eq(clock_->ops->arm(clock_, gettid(), gettid(), &err), 0);
	cr_assert_eq(clock_->armed, 1);
	burn_until(5);
	cr_assert_eq(strangers, 0);
	cr_assert_eq(clock_->ops->owner(clock_, (uint32_t)last_fd), gettid());
	cr_assert_eq(clock_->ops->owner(clock_, UINT32_MAX), 0);
	kp_clock_destroy(clock_);
}

Test(event, is_silent_when_stopped_and_still_names_its_thread)
{
	sig_atomic_t before;

	if (!begin())
		return;
	clock_->ops->arm(clock_, gettid(), gettid(), &err);
	burn_until(1);
	clock_->ops->stop(clock_);
	before = signals;
	for (uint32_t i = 0; i < 20000000; i++)
		work++;
	cr_assert_eq(signals, before);
	cr_assert_eq(clock_->ops->owner(clock_, (uint32_t)last_fd), gettid());
	clock_->ops->forget(clock_, gettid());
	cr_assert_eq(clock_->ops->owner(clock_, (uint32_t)last_fd), 0);
	kp_clock_destroy(clock_);
}

Test(event, thread_that_blocks_the_signal_is_armed_when_it_no_longer_does)
{
	if (!begin())
		return;
	block(SIG_BLOCK);
	cr_assert_eq(clock_->ops->arm(clock_, gettid(), gettid(), &err), -KP_EREFUSED);
	cr_assert_eq(clock_->armed, 0);
	cr_assert_eq(clock_->failed, 1);
	cr_assert(clock_->soon);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->armed, 0);
	block(SIG_UNBLOCK);
	while (clock_->failed)
		clock_->ops->serve(clock_);
	cr_assert_eq(clock_->armed, 1);
	burn_until(1);
	kp_clock_destroy(clock_);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void burn_ns(uint64_t ns)
{
	for (uint64_t end = own_cpu_ns() + ns; own_cpu_ns() < end;)
		work++;
}

/* CPU time from the moment when a thread takes signals, 5 ms after its birth, until the first one. */
static uint64_t first_signal_after(void)
{
	uint64_t start;

	signals = 0;
	block(SIG_BLOCK);
	clock_->ops->arm(clock_, gettid(), gettid(), NULL);
	burn_ns(5000000);
	block(SIG_UNBLOCK);
	while (clock_->failed)
		clock_->ops->serve(clock_);
	start = own_cpu_ns();
	burn_until(1);
	clock_->ops->forget(clock_, gettid());
	return own_cpu_ns() - start;
}

/* On a busy machine the time in which it counts as being born may be over: then it is tried again. */
Test(event, counts_from_the_birth_of_a_thread_that_does_not_take_signals_yet)
{
	int tries = 200;

	if (!begin_with(8000000))
		return;
	while (first_signal_after() > 5000000)
		cr_assert_gt(--tries, 0);
	kp_clock_destroy(clock_);
}

Test(event, thread_without_the_agent_gets_no_signal)
{
	if (!begin())
		return;
	head.magic = 0; /* another program has been executed */
	cr_assert_eq(clock_->ops->arm(clock_, gettid(), gettid(), &err), -KP_EGONE);
	for (uint32_t i = 0; i < 20000000; i++)
		work++;
	cr_assert_eq(signals, 0);
	cr_assert_eq(clock_->armed, 0);
	kp_clock_destroy(clock_);
}

static void *end_at_once(void *ret_tid)
{
	*(pid_t *)ret_tid = gettid();
	return NULL;
}

Test(event, thread_that_has_ended_is_no_failure)
{
	pthread_t thread;
	pid_t tid = 0;

	if (!begin())
		return;
	cr_assert_eq(pthread_create(&thread, NULL, end_at_once, &tid), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(clock_->ops->arm(clock_, tid, tid, &err), -KP_EGONE);
	cr_assert_eq(clock_->failed, 0);
	kp_clock_destroy(clock_);
}

Test(event, cycles_have_their_own_name_and_weight)
{
	static const struct kp_event_period period = { KP_EVENT_CYCLES, 2500000, 1000000 };

	cr_assert_eq(kp_event_clock_create(getpid(), agent(), SIGURG, &period, &clock_, &err), 0);
	cr_assert_str_eq(clock_->ops->name, "cycles");
	cr_assert_eq(clock_->period_ns, 1000000);
	kp_clock_destroy(clock_);
}
