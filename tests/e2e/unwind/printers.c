/*
 * printers SECONDS: uses CPU time, so many seconds of it, in the printf of a libc, in three threads:
 *
 *	(thread's root) print_all print_some printf ... and (thread's root) main print_all ...
 */
#include "cpu_time.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 2
#define NOINLINE __attribute__((noinline, noclone))
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

static int seconds;

NOINLINE static void print_some(int n)
{
	char text[200];

	snprintf(text, sizeof(text), "%d %-20s|%08lx %g %.3Lf %c %10.4s\n", n, "text", (long)n * 77,
		 n / 7.0, (long double)n * 1.1L, 'a' + n % 26, "precision");
	printf("%s%5d", text, n);
	NO_TAIL_CALL();
}

NOINLINE static void print_all(void)
{
	for (int n = 0; n % 4096 || !used_seconds(seconds); n++)
		print_some(n);
	NO_TAIL_CALL();
}

static void *work(void *unused)
{
	print_all();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	seconds = argc > 1 ? atoi(argv[1]) : 1;
	alarm(120);
	if (!freopen("/dev/null", "w", stdout))
		return 97;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, NULL) != 0)
			return 98;
	print_all();
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
