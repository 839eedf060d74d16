/*
 * born SECONDS: threads that come one after another, each named "born0", "born1", ... and burning
 * 300 ms of CPU time, while the main thread sleeps until they have ended.
 */
#include "burn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((noinline)) static void live(void)
{
	while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.3)
		BURN(100000);
}

static void *work(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "born%d", *(int *)number);
	prctl(PR_SET_NAME, name);
	live();
	return NULL;
}

int main(int argc, char **argv)
{
	double end = seconds(CLOCK_MONOTONIC) + (argc == 2 ? atof(argv[1]) : 0);

	alarm(120);
	puts("ready");
	fflush(stdout);
	for (int i = 0; seconds(CLOCK_MONOTONIC) < end; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, &i) != 0)
			return 98;
		pthread_join(thread, NULL);
	}
	return 0;
}
