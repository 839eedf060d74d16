/*
 * places PLACE SECONDS: uses CPU time, so many seconds of it, at a place whose whole call chain is
 * known, reached through code that was compiled without frame pointers. SECONDS 0: until it is ended;
 * "ready" is said when it is there. With "spin" behind, it stays in one place for good, so that
 * somebody else may look at the same stack.
 *
 *	sort		main outer middle sort_all (qsort ...) compare
 *	signal		main outer middle interrupted (signal) on_other_stack handle
 *	thread		(thread's root) start_thread work deepen deepen ... bottom
 *	clock		main outer middle tell_time (vdso)
 *	deep		main outer middle, then deepen 100000 times
 *	jump		main outer middle jump_about land
 */
#include "tests/e2e/truth/burn.h"
#include "cpu_time.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Something to do after a call, so that it is no jump. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

static int spin;

/* The leaf of most places. */
NOINLINE static void use_time(void)
{
	do {
		BURN(100000);
	} while (spin);
	NO_TAIL_CALL();
}

/* ---- sort ---- */

NOINLINE static int compare(const void *a, const void *b)
{
	do {
		BURN(3000);
	} while (spin);
	return memcmp(a, b, sizeof(int));
}

NOINLINE static void sort_all(void)
{
	int numbers[300];

	for (int i = 0; i < 300; i++)
		numbers[i] = (i * 7919) % 1009;
	qsort(numbers, 300, sizeof(*numbers), compare);
	NO_TAIL_CALL();
}

/* ---- signal ---- */

NOINLINE static void handle(void)
{
	use_time();
	NO_TAIL_CALL();
}

static void on_other_stack(int signal)
{
	(void)signal;
	handle();
	NO_TAIL_CALL();
}

NOINLINE static void interrupted(void)
{
	raise(SIGUSR1);
	NO_TAIL_CALL();
}

static void expect_signal(void)
{
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_other_stack, .sa_flags = SA_ONSTACK };

	if (sigaltstack(&other, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		_exit(97);
}

/* ---- thread, deep ---- */

NOINLINE static void bottom(void)
{
	use_time();
	NO_TAIL_CALL();
}

NOINLINE static void deepen(int levels)
{
	if (levels > 0)
		deepen(levels - 1);
	else
		bottom();
	NO_TAIL_CALL();
}

static void *work(void *unused)
{
	for (int i = 0; i < 1000; i++)
		deepen(5);
	return unused;
}

NOINLINE static void run_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
		_exit(97);
}

NOINLINE static void go_deep(void)
{
	deepen(100000);
	NO_TAIL_CALL();
}

/* ---- clock ---- */

NOINLINE static void tell_time(void)
{
	struct timespec now;

	for (int i = 0; i < 10000 || spin; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

/* ---- jump ---- */

static jmp_buf back;
static volatile int back_is_set;

NOINLINE static void land(void)
{
	use_time();
	NO_TAIL_CALL();
}

NOINLINE static void leap(int levels)
{
	char frame[100 + levels * 8];

	memset(frame, levels, sizeof(frame));
	if (levels > 0)
		leap(levels - 1);
	else if (back_is_set)
		longjmp(back, frame[0] + 1);
	NO_TAIL_CALL();
}

NOINLINE static void jump_about(void)
{
	if (setjmp(back) == 0) {
		back_is_set = 1;
		leap(10);
	}
	land();
	NO_TAIL_CALL();
}

/* ---- the way there ---- */

static const struct place {
	const char *name;
	void (*go)(void);
} places[] = {
	{ "sort", sort_all },	{ "signal", interrupted }, { "thread", run_thread },
	{ "clock", tell_time }, { "deep", go_deep },	   { "jump", jump_about },
};

/* Frames of different kinds: one of variable size, one with registers saved. */
NOINLINE static void middle(void (*go)(void), int n)
{
	char room[n];

	memset(room, n, sizeof(room));
	__asm__ volatile("" ::"r"(room) : "memory");
	go();
	NO_TAIL_CALL();
}

NOINLINE static void outer(void (*go)(void), int seconds)
{
	for (int i = 1; !seconds || i % 16 || !used_seconds(seconds); i++) {
		middle(go, i % 512 + 16);
		__asm__ volatile("" : "+r"(i)::"rbx", "r12", "r13", "r14", "r15", "memory");
	}
}

int main(int argc, char **argv)
{
	int seconds = argc > 2 ? atoi(argv[2]) : 0;

	alarm(120);
	expect_signal();
	spin = argc > 3 && strcmp(argv[3], "spin") == 0;
	puts("ready");
	fflush(stdout);
	for (size_t i = 0; argc > 1 && i < sizeof(places) / sizeof(*places); i++) {
		if (strcmp(places[i].name, argv[1]) != 0)
			continue;
		outer(places[i].go, seconds);
		return 0;
	}
	return 99;
}
