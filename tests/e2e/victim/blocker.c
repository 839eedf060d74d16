/*
 * blocker PLAN...	one thread per word, each burning CPU time in a function of its own:
 *	open		blocks no signal
 *	shut		blocks all signals
 *	late		blocks all signals from a second on
 *	blink		blocks all signals nine tenths of each 10 ms
 *	idle		blocks all signals, and sleeps but for a millisecond in twenty
 * All end on SIGTERM, which the main thread waits for; it blocks it all the time.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>

#define MS UINT64_C(1000000)

/* Each its own code, so that the compiler does not make one of them. */
#define BURN(name, number)                                                                         \
	static __attribute__((noipa)) unsigned burn_##name(unsigned x, uint64_t ns)                \
	{                                                                                          \
		uint64_t end = victim_now_ns() + ns;                                               \
		while (victim_now_ns() < end)                                                      \
			for (int i = 0; i < 3000 + number; i++)                                    \
				x = x * 1103515245u + number;                                      \
		return x;                                                                          \
	}

BURN(open, 1)
BURN(shut, 2)
BURN(late, 3)
BURN(blink, 4)
BURN(idle, 5)

static void block(int how)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(how, &all, NULL);
}

static void *work(void *word)
{
	const char *plan = word;
	uint64_t start = victim_now_ns();
	unsigned x = 1;

	prctl(PR_SET_NAME, plan);
	block(strcmp(plan, "shut") == 0 || strcmp(plan, "idle") == 0 ? SIG_BLOCK : SIG_UNBLOCK);
	while (!victim_stopped) {
		if (strcmp(plan, "open") == 0) {
			x = burn_open(x, 10 * MS);
		} else if (strcmp(plan, "shut") == 0) {
			x = burn_shut(x, 10 * MS);
		} else if (strcmp(plan, "late") == 0) {
			x = burn_late(x, 10 * MS);
			if (victim_now_ns() - start > 1000 * MS)
				block(SIG_BLOCK);
		} else if (strcmp(plan, "blink") == 0) {
			block(SIG_BLOCK);
			x = burn_blink(x, 9 * MS);
			block(SIG_UNBLOCK);
			x = burn_blink(x, MS);
		} else {
			victim_sleep_ms(19);
			x = burn_idle(x, MS);
		}
	}
	return (void *)(uintptr_t)x;
}

int main(int argc, char **argv)
{
	pthread_t thread[32];
	sigset_t term;
	int signal;

	block(SIG_UNBLOCK);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	for (int i = 1; i < argc && i < 32; i++)
		if (pthread_create(&thread[i], NULL, work, argv[i]) != 0)
			victim_give_up("pthread_create");
	victim_ready();
	sigwait(&term, &signal);
	victim_stopped = 1;
	for (int i = 1; i < argc && i < 32; i++)
		pthread_join(thread[i], NULL);
	return signal == SIGTERM ? 0 : 1;
}
