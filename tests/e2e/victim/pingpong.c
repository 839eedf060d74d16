/*
 * pingpong	two threads that throw a byte to each other through pipes, each waiting for it in
 *		epoll_wait. Says at its end how many times a second of CPU time, and in how many an
 *		epoll_wait failed.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/epoll.h>

static int to_left[2], to_right[2];
static unsigned long rounds, errors;

static int wait_for(int fd, int epoll)
{
	struct epoll_event event;
	char byte;
	int n = epoll_wait(epoll, &event, 1, 1000);

	if (n < 0)
		errors++;
	return n == 1 && read(fd, &byte, 1) == 1;
}

static int watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		victim_give_up("epoll");
	return epoll;
}

static void *left(void *unused)
{
	int epoll = watch(to_left[0]);

	(void)unused;
	while (!victim_stopped)
		if (wait_for(to_left[0], epoll) && write(to_right[1], "x", 1) != 1)
			errors++;
	return NULL;
}

static void *right(void *unused)
{
	int epoll = watch(to_right[0]);

	(void)unused;
	while (!victim_stopped) {
		if (write(to_left[1], "x", 1) != 1)
			errors++;
		while (!victim_stopped && !wait_for(to_right[0], epoll))
			;
		rounds++;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[2];
	struct timespec cpu;

	victim_end_on_term();
	if (pipe(to_left) != 0 || pipe(to_right) != 0 ||
	    pthread_create(&thread[0], NULL, left, NULL) != 0 ||
	    pthread_create(&thread[1], NULL, right, NULL) != 0)
		victim_give_up("pipes and threads");
	victim_ready();
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("rounds %lu per %lu ms cpu, errors %lu\n", rounds,
	       (unsigned long)cpu.tv_sec * 1000 + (unsigned long)cpu.tv_nsec / 1000000, errors);
	return errors != 0;
}
