/*
 * churn threads	threads come and go, four at a time, each for some milliseconds of CPU or sleep
 * churn leader MS	the main thread ends after so long, two others burn CPU
 * churn sleepers N	N threads come late and only sleep, so that no signal arms anybody
 */
#include "victim.h"

#include <pthread.h>

static void burn_us(unsigned us)
{
	uint64_t end = victim_now_ns() + us * UINT64_C(1000);
	unsigned x = us;

	while (victim_now_ns() < end)
		x = victim_spin(x);
}

static void *live_shortly(void *arg)
{
	unsigned us = (unsigned)(uintptr_t)arg;

	if (us % 4 == 0)
		victim_sleep_ms(us / 1000);
	else
		burn_us(us);
	return NULL;
}

static int run_threads(void)
{
	pthread_t threads[4];
	unsigned random = 1, n = 0;

	for (; n < 4 || !victim_stopped; n++) {
		if (n >= 4)
			pthread_join(threads[n % 4], NULL);
		random = random * 1103515245u + 12345u;
		if (pthread_create(&threads[n % 4], NULL, live_shortly,
				   (void *)(uintptr_t)((random >> 16) % 8000)) != 0)
			victim_give_up("pthread_create");
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("end: %u threads\n", n);
	return 0;
}

static void *burn_to_end(void *arg)
{
	unsigned x = 1;

	(void)arg;
	while (!victim_stopped)
		x = victim_spin(x);
	_exit(0);
}

static int run_leader(unsigned ms)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, burn_to_end, NULL) != 0)
			victim_give_up("pthread_create");
	victim_ready();
	victim_sleep_ms(ms);
	pthread_exit(NULL);
}

static void *sleep_to_end(void *arg)
{
	(void)arg;
	while (!victim_stopped)
		victim_sleep_ms(50);
	return NULL;
}

static int run_sleepers(int count)
{
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));

	for (int i = 0; i < count; i++) {
		victim_sleep_ms(20);
		if (pthread_create(&threads[i], NULL, sleep_to_end, NULL) != 0)
			victim_give_up("pthread_create");
	}
	sleep_to_end(NULL);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	victim_end_on_term();
	if (argc > 1 && strcmp(argv[1], "leader") == 0)
		return run_leader(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
	victim_ready();
	return argc > 2 ? run_sleepers(atoi(argv[2])) : run_threads();
}
