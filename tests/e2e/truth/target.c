/*
 * target MODE: a process that kitprof is to refuse, or nearly. Prints "ready", and behind it the id
 * that the mode is about.
 *
 *	plain		burns CPU time
 *	sigprof		the same, with a handler for SIGPROF
 *	thread		the same, with a second thread; its id
 *	zombie		a child that has ended and is not waited for
 *	traced		a child that is traced by its parent
 *	interrupts	counts SIGINTs until half a second after the first, and ends with 6
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	(void)signal;
	signals++;
}

__attribute__((noinline)) static void work(void)
{
	for (;;)
		BURN(100000);
}

static void ready(pid_t id)
{
	printf("ready %d\n", (int)id);
	fflush(stdout);
}

static void *be_thread(void *arg)
{
	(void)arg;
	ready(gettid());
	work();
	return NULL;
}

static int count_interrupts(void)
{
	struct timespec first, now;

	signal(SIGINT, on_signal);
	ready(getpid());
	while (signals == 0)
		BURN(1000);
	puts("first");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &first);
	do {
		BURN(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - first.tv_sec) * 1000000000L + now.tv_nsec - first.tv_nsec <
		 500000000L);
	printf("interrupts %d\n", (int)signals);
	return 6;
}

static pid_t start_child(int ends)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	if (ends)
		_exit(0);
	work();
	return -1;
}

static void leave_zombie(void)
{
	pid_t child = start_child(1);
	siginfo_t info;

	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	ready(child);
	pause();
}

static void trace(void)
{
	pid_t child = start_child(0);

	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) != 0)
		perror("ptrace");
	else
		ready(child);
	pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";
	pthread_t thread;

	alarm(120);
	if (strcmp(mode, "zombie") == 0)
		leave_zombie();
	if (strcmp(mode, "traced") == 0)
		trace();
	if (strcmp(mode, "interrupts") == 0)
		return count_interrupts();
	if (strcmp(mode, "sigprof") == 0)
		signal(SIGPROF, on_signal);
	if (strcmp(mode, "thread") == 0)
		pthread_create(&thread, NULL, be_thread, NULL);
	else
		ready(getpid());
	work();
	return 0;
}
