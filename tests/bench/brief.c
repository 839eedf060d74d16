/*
 * The target of the coverage benchmark: many short lives, each of which does a known amount of work
 * in one known function.
 *
 *	brief thread|fork|exec LIVES ROUNDS	two at a time, back to back
 *	brief measure				prints the rounds of a millisecond of CPU time
 *
 * Prints its CPU time in seconds, that of its children included, as the kernel accounts for it, and
 * a checksum of all work. Exit status 0 only if every life ended as it should.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_A_TIME 2
#define STATUS_BITS 0x7f /* of a result fit into an exit status */

static unsigned long rounds;

__attribute__((noinline)) static uint64_t burn_briefly(uint64_t x)
{
	for (unsigned long i = 0; i < rounds; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* ---- threads ---- */

static void *live(void *result)
{
	uint64_t *x = result;

	*x = burn_briefly(*x);
	return NULL;
}

static int run_threads(unsigned lives, uint64_t *sum)
{
	pthread_t thread[AT_A_TIME];
	uint64_t result[AT_A_TIME];

	for (unsigned i = 0; i < lives + AT_A_TIME; i++) {
		unsigned slot = i % AT_A_TIME;

		if (i >= AT_A_TIME) {
			if (i - AT_A_TIME >= lives)
				break;
			if (pthread_join(thread[slot], NULL) != 0)
				return -1;
			*sum += result[slot] & STATUS_BITS;
		}
		result[slot] = i;
		if (i < lives && pthread_create(&thread[slot], NULL, live, &result[slot]) != 0)
			return -1;
	}
	return 0;
}

/* ---- processes ---- */

__attribute__((noreturn)) static void live_in_child(unsigned number, int in_a_program)
{
	char work[32], seed[32];

	if (!in_a_program)
		_exit((int)(burn_briefly(number) & STATUS_BITS));
	snprintf(work, sizeof(work), "%lu", rounds);
	snprintf(seed, sizeof(seed), "%u", number);
	execl("/proc/self/exe", "brief", "live", seed, work, (char *)NULL);
	_exit(255);
}

static int wait_for_one(uint64_t *sum)
{
	int status;

	if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) > STATUS_BITS)
		return -1;
	*sum += (uint64_t)WEXITSTATUS(status);
	return 0;
}

static int run_processes(unsigned lives, int in_a_program, uint64_t *sum)
{
	unsigned running = 0;

	for (unsigned i = 0; i < lives; i++) {
		pid_t pid;

		if (running == AT_A_TIME && wait_for_one(sum) != 0)
			return -1;
		running -= running == AT_A_TIME;
		pid = fork();
		if (pid < 0)
			return -1;
		if (pid == 0)
			live_in_child(i, in_a_program);
		running++;
	}
	while (running--)
		if (wait_for_one(sum) != 0)
			return -1;
	return 0;
}

/* ---- the clock ---- */

static double cpu_s(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of some: getrusage() is not exact enough for one, and a machine is not always as fast. */
static int measure(void)
{
	double took[51];
	size_t count = sizeof(took) / sizeof(took[0]);

	rounds = 1000000;
	for (size_t i = 0; i < count; i++) {
		struct timespec start, end;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
		burn_briefly(i);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		took[i] = (double)(end.tv_sec - start.tv_sec) * 1e3 +
			  (double)(end.tv_nsec - start.tv_nsec) / 1e6;
	}
	qsort(took, count, sizeof(took[0]), by_size);
	printf("%.0f\n", (double)rounds / took[count / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "measure";
	unsigned number = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	uint64_t sum = 0;
	int r;

	rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (strcmp(kind, "measure") == 0)
		return measure();
	if (strcmp(kind, "live") == 0)
		return (int)(burn_briefly(number) & STATUS_BITS);
	r = strcmp(kind, "thread") == 0 ? run_threads(number, &sum)
					: run_processes(number, strcmp(kind, "exec") == 0, &sum);
	printf("cpu %.6f sum %llu\n", cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN),
	       (unsigned long long)sum);
	return r == 0 ? 0 : 1;
}
