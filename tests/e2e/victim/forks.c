/*
 * forks COUNT: forks a child every 100 ms until there are COUNT, each of which burns CPU as the
 * parent does, half of them in a thread of their own beside. All end with the parent, by SIGTERM.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHILDREN_MAX 64

static void *burn(void *arg)
{
	unsigned x = 1;

	(void)arg;
	while (!victim_stopped)
		x = victim_spin(x);
	return NULL;
}

static void be_child(int number)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (number % 2 == 0) {
		burn(NULL);
		_exit(0);
	}
	if (pthread_create(&thread, NULL, burn, NULL) != 0)
		victim_give_up("pthread_create");
	burn(NULL);
	pthread_join(thread, NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, bad = 0;
	pid_t children[CHILDREN_MAX];

	if (count > CHILDREN_MAX)
		count = CHILDREN_MAX;
	victim_end_on_term();
	victim_ready();
	for (int i = 0; i < count; i++) {
		uint64_t end = victim_now_ns() + 100000000;

		while (victim_now_ns() < end)
			victim_spin(1);
		children[i] = fork();
		if (children[i] < 0)
			victim_give_up("fork");
		if (children[i] == 0)
			be_child(i);
	}
	puts("all");
	fflush(stdout);
	burn(NULL);
	for (int i = 0; i < count; i++) {
		int status;

		kill(children[i], SIGTERM);
		if (waitpid(children[i], &status, 0) != children[i] || status != 0) {
			printf("bad: child %d: status %#x\n", i, (unsigned)status);
			bad++;
		}
	}
	printf("end: %d bad\n", bad);
	return bad != 0;
}
