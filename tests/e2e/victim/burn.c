/*
 * burn THREADS [yield]: so many threads (the main one is one of them) use CPU, each with its own copy of a
 * sum whose parts must fit together at the end: a register or a word that got lost shows. With
 * yield they take turns every 0.1 ms or so: where threads are more than CPUs, stopping one takes as
 * long as its next turn takes to come.
 */
#include "victim.h"

#include <pthread.h>
#include <sched.h>

static int do_yield;

struct worker {
	pthread_t thread;
	uint64_t rounds, sum, square;
};

/* The sums of n and of n * n, kept in locals: registers, mostly. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t n = 0, sum = 0, square = 0;

	while (!victim_stopped) {
		for (int i = 0; i < 100000; i++) {
			n++;
			sum += n;
			square += n * n;
		}
		if (do_yield)
			sched_yield();
	}
	w->rounds = n;
	w->sum = sum;
	w->square = square;
	return NULL;
}

/* Modulo 2^64 as well, by division before multiplication. */
static int is_right(const struct worker *w)
{
	uint64_t a = w->rounds, b = a + 1, c = 2 * a + 1;
	uint64_t sum = (a % 2 ? a * (b / 2) : a / 2 * b);

	if (a % 2)
		b /= 2;
	else
		a /= 2;
	if (a % 3 == 0)
		a /= 3;
	else if (b % 3 == 0)
		b /= 3;
	else
		c /= 3;
	return w->sum == sum && w->square == a * b * c;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, wrong = 0;
	struct worker *workers = calloc((size_t)count, sizeof(*workers));

	do_yield = argc > 2 && strcmp(argv[2], "yield") == 0;
	victim_end_on_term();
	for (int i = 1; i < count; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			victim_give_up("pthread_create");
	victim_ready();
	work(&workers[0]);
	for (int i = 1; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < count; i++)
		if (!is_right(&workers[i])) {
			printf("bad: thread %d: %llu rounds\n", i,
			       (unsigned long long)workers[i].rounds);
			wrong++;
		}
	printf("end: %d wrong\n", wrong);
	return wrong != 0;
}
