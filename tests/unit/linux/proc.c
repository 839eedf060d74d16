/* Unit tests of the /proc parsers, on this process itself under names that are made to mislead. */
#include "common/cleanup.h"
#include "daemon/linux/proc.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY (1 << 22) /* one more than the kernel's largest pid */

static struct kp_proc_status status_of_self(void)
{
	struct kp_proc_status status;

	cr_assert_eq(kp_proc_status(getpid(), gettid(), &status, NULL), 0);
	return status;
}

Test(proc, status_says_who_and_how)
{
	struct kp_proc_status status = status_of_self();

	cr_assert_eq(status.tgid, getpid());
	cr_assert_eq(status.ppid, getppid());
	cr_assert_eq(status.uid[0], getuid());
	cr_assert_eq(status.uid[1], geteuid());
	cr_assert_eq(status.state, 'R');
	cr_assert_eq(status.tracer, 0);
	cr_assert_geq(status.threads, 1);
}

static void nothing(int signal)
{
	(void)signal;
}

Test(proc, status_shows_what_happens_to_signals)
{
	struct kp_proc_status status;
	sigset_t set;

	signal(SIGUSR1, nothing);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	pthread_kill(pthread_self(), SIGRTMAX);
	status = status_of_self();
	cr_assert(status.sig_caught & kp_signal_bit(SIGUSR1));
	cr_assert_not(status.sig_caught & kp_signal_bit(SIGUSR2));
	cr_assert(status.sig_ignored & kp_signal_bit(SIGUSR2));
	cr_assert_eq(status.sig_blocked, kp_signal_bit(SIGHUP) | kp_signal_bit(SIGRTMAX));
	cr_assert_eq(status.sig_pending, kp_signal_bit(SIGRTMAX));
}

Test(proc, names_cannot_forge_fields)
{
	uint64_t before, after;
	bool kernel = true;
	char comm[64];

	cr_assert_eq(kp_proc_start_time(getpid(), &before, NULL), 0);
	prctl(PR_SET_NAME, "x) Z 1 1\nUid:\t7");
	cr_assert_eq(kp_proc_start_time(getpid(), &after, NULL), 0);
	cr_assert_eq(before, after);
	cr_assert_eq(kp_proc_is_kernel_thread(getpid(), &kernel, NULL), 0);
	cr_assert_not(kernel);
	cr_assert_eq(status_of_self().state, 'R');
	cr_assert_eq(status_of_self().uid[0], getuid());
	kp_proc_comm(getpid(), gettid(), comm, sizeof(comm));
	cr_assert_null(strchr(comm, '\n'));
	cr_assert_eq(strncmp(comm, "x) Z 1 1", 8), 0);
}

Test(proc, who_is_gone_is_told_apart_from_other_errors)
{
	struct kp_proc_status status;
	struct kp_err err;
	uint64_t number;
	size_t count;
	pid_t *tids;
	char comm[16] = "old", exe[16] = "old";

	cr_assert_eq(kp_proc_status(NOBODY, NOBODY, &status, &err), -KP_EGONE);
	cr_assert_not_null(strstr(err.text, "4194304"));
	cr_assert_eq(kp_proc_start_time(NOBODY, &number, &err), -KP_EGONE);
	cr_assert_eq(kp_proc_tasks(NOBODY, &tids, &count, &err), -KP_EGONE);
	cr_assert_not(kp_proc_cpu_ns(NOBODY, &number));
	kp_proc_comm(NOBODY, NOBODY, comm, sizeof(comm));
	cr_assert_str_eq(comm, "");
	kp_proc_exe(NOBODY, exe, sizeof(exe));
	cr_assert_str_eq(exe, "");
}

static int lock[2];

static void *stay(void *arg)
{
	char byte;

	return read(lock[0], &byte, 1) == 1 ? arg : NULL;
}

Test(proc, tasks_are_all_there_and_ascend)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	pthread_t thread[5];
	size_t before, count;

	cr_assert_eq(pipe(lock), 0);
	cr_assert_eq(kp_proc_tasks(getpid(), &tids, &before, NULL), 0);
	free(kp_take(tids));
	for (int i = 0; i < 5; i++)
		pthread_create(&thread[i], NULL, stay, NULL);
	cr_assert_eq(kp_proc_tasks(getpid(), &tids, &count, NULL), 0);
	cr_assert_eq(count, before + 5);
	for (size_t i = 1; i < count; i++)
		cr_assert_lt(tids[i - 1], tids[i]);
	cr_assert_eq(write(lock[1], "12345", 5), 5);
	for (int i = 0; i < 5; i++)
		pthread_join(thread[i], NULL);
}

Test(proc, timers_are_told_with_their_value)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG };
	_cleanup_(kp_freep) struct kp_proc_timer *timers = NULL;
	timer_t timer;
	size_t count;

	event.sigev_value.sival_ptr = (void *)(uintptr_t)UINT64_C(0x6b70a5e700000123);
	cr_assert_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	if (kp_proc_timers(getpid(), &timers, &count, NULL) < 0)
		return; /* a kernel without CONFIG_CHECKPOINT_RESTORE */
	cr_assert_eq(count, 1);
	cr_assert_eq(timers[0].signal, SIGURG);
	cr_assert_eq(timers[0].value, UINT64_C(0x6b70a5e700000123));
	timer_delete(timer);
	free(kp_take(timers));
	cr_assert_eq(kp_proc_timers(getpid(), &timers, &count, NULL), 0);
	cr_assert_eq(count, 0);
}

Test(proc, cpu_time_counts_a_zombie_too)
{
	uint64_t before = 0, after = 0;
	pid_t child = fork();
	siginfo_t info;

	if (child == 0) {
		for (volatile long i = 0; i < 5000000; i++)
			;
		_exit(0);
	}
	cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	cr_assert(kp_proc_cpu_ns(child, &before));
	cr_assert_gt(before, 100000);
	cr_assert(kp_proc_cpu_ns(child, &after));
	cr_assert_eq(before, after);
	waitpid(child, NULL, 0);
	cr_assert_not(kp_proc_cpu_ns(child, &after));
}
