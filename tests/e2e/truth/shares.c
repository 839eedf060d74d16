/*
 * shares ROUNDS THREADS STATUS: four functions that use CPU time as 50 : 30 : 15 : 5, in one thread
 * or in several that do all the same ("w0", "w1", ...), then "done" and that exit status. A round
 * takes 100 ms or more: much longer than any sampling period, so that the two cannot go in step.
 */
#include "burn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PERCENT 1000000L

#define PART(name, percent)                                                                        \
	__attribute__((noinline)) static void name(void)                                           \
	{                                                                                          \
		volatile char frame = 0; /* gcc gives no frame to what keeps nothing in it */      \
                                                                                                   \
		(void)frame;                                                                       \
		BURN((percent)*PERCENT);                                                           \
	}

PART(fifty, 50)
PART(thirty, 30)
PART(fifteen, 15)
PART(five, 5)

static long rounds;

__attribute__((noinline)) static void go_round(void)
{
	for (long i = 0; i < rounds; i++) {
		fifty();
		thirty();
		fifteen();
		five();
	}
}

static void *work(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "w%d", *(int *)number);
	prctl(PR_SET_NAME, name);
	go_round();
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc == 4 ? atoi(argv[2]) : 0;
	pthread_t thread[64];
	int number[64];

	if (threads < 1 || threads > 64)
		return 99;
	rounds = atol(argv[1]);
	alarm(120);
	for (int i = 0; threads > 1 && i < threads; i++) {
		number[i] = i;
		if (pthread_create(&thread[i], NULL, work, &number[i]) != 0)
			return 98;
	}
	if (threads == 1)
		go_round();
	for (int i = 0; threads > 1 && i < threads; i++)
		pthread_join(thread[i], NULL);
	puts("done");
	return atoi(argv[3]);
}
