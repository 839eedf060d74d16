/*
 * A fixed amount of work on each of several threads, then its result: the target of the attach and
 * overhead benchmarks. spin THREADS MILLIONS [forever]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long rounds;
static int forever;

__attribute__((noinline)) static unsigned long mix(unsigned long x)
{
	for (int i = 0; i < 1000; i++)
		x = x * 6364136223846793005ul + 1442695040888963407ul;
	return x;
}

static void *work(void *arg)
{
	unsigned long x = (unsigned long)arg;

	do {
		for (unsigned long i = 0; i < rounds; i++)
			x = mix(x);
	} while (forever);
	return (void *)x;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	unsigned long sum = 0;
	void *x;
	pthread_t *thread;

	rounds = (argc > 2 ? strtoul(argv[2], NULL, 10) : 100) * 1000;
	forever = argc > 3 && strcmp(argv[3], "forever") == 0;
	thread = calloc((size_t)threads, sizeof(*thread));
	for (int i = 0; thread && i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(long)i) != 0)
			return 1;
	for (int i = 0; thread && i < threads; i++)
		if (pthread_join(thread[i], &x) == 0)
			sum += (unsigned long)x;
	free(thread);
	printf("sum %lu\n", sum);
	return 0;
}
