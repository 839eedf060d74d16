/*
 * blocker PLAN...	one thread per plan, each burning CPU time in a function of its own:
 *	open		blocks no signal that a profiler uses
 *	shut		blocks all signals
 *	early		blocks all signals for a second and a half
 *	blink		blocks all signals nine tenths of each 10 ms
 *	idle		blocks all signals, and sleeps but for a millisecond in twenty
 *
 * The main thread blocks all signals and waits for any. One that is not SIGTERM is told and makes
 * the exit status 1.
 *
 * blocker exec N	blocks all signals, burns 400 ms, executes itself, N times in all, and ends
 *			after it has unblocked them
 *
 * Each thread says at its end what CPU time it used.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>

#define MS UINT64_C(1000000)
#define THREADS_MAX 64

/* Each its own code, so that the compiler does not make one of them. */
#define BURN(name, number)                                                                         \
	static __attribute__((noinline)) unsigned burn_##name(unsigned x, uint64_t ns)             \
	{                                                                                          \
		uint64_t end = victim_now_ns() + ns;                                               \
		while (victim_now_ns() < end)                                                      \
			for (int i = 0; i < 3000 + number; i++)                                    \
				x = x * 1103515245u + number;                                      \
		return x;                                                                          \
	}

BURN(open, 1)
BURN(shut, 2)
BURN(early, 3)
BURN(blink, 4)
BURN(idle, 5)

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
}

/* What a profiler may use; the others are the main thread's. */
static void unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigaddset(&set, SIGPROF);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static unsigned work_once(const char *plan, unsigned x, uint64_t age)
{
	if (strcmp(plan, "open") == 0)
		return burn_open(x, 10 * MS);
	if (strcmp(plan, "shut") == 0)
		return burn_shut(x, 10 * MS);
	if (strcmp(plan, "early") == 0) {
		if (age > 1500 * MS)
			unblock();
		return burn_early(x, 10 * MS);
	}
	if (strcmp(plan, "blink") == 0) {
		block_all();
		x = burn_blink(x, 9 * MS);
		unblock();
		return burn_blink(x, MS);
	}
	victim_sleep_ms(19);
	return burn_idle(x, MS);
}

static void *work(void *word)
{
	const char *plan = word;
	uint64_t start = victim_now_ns();
	struct timespec cpu;
	unsigned x = 1;

	prctl(PR_SET_NAME, plan);
	if (strcmp(plan, "open") == 0 || strcmp(plan, "blink") == 0)
		unblock();
	while (!victim_stopped)
		x = work_once(plan, x, victim_now_ns() - start);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	printf("%s used %u ms%s\n", plan, (unsigned)(cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000),
	       x == 7 ? " " : "");
	return NULL;
}

static int wait_for_term(void)
{
	int signal, wrong = 0;
	sigset_t all;

	sigfillset(&all);
	while (sigwait(&all, &signal) != 0 || signal != SIGTERM) {
		printf("got signal %d\n", signal);
		wrong = 1;
	}
	return wrong;
}

static void exec_again(char **argv)
{
	char number[16];
	int left = atoi(argv[2]);

	burn_shut(1, 400 * MS);
	if (left == 0) {
		unblock();
		puts("has got through");
		exit(0);
	}
	snprintf(number, sizeof(number), "%d", left - 1);
	argv[2] = number;
	execv("/proc/self/exe", argv);
	victim_give_up("exec");
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	int wrong;

	block_all();
	if (argc > 2 && strcmp(argv[1], "exec") == 0)
		exec_again(argv);
	for (int i = 1; i < argc && i < THREADS_MAX; i++)
		if (pthread_create(&thread[i], NULL, work, argv[i]) != 0)
			victim_give_up("pthread_create");
	victim_ready();
	wrong = wait_for_term();
	victim_stopped = 1;
	for (int i = 1; i < argc && i < THREADS_MAX; i++)
		pthread_join(thread[i], NULL);
	return wrong;
}
