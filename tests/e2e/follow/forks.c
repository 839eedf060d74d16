/*
 * forks CHILDREN MILLIONS [threads|daemon|forever]: children that burn CPU, two at a time. With
 * threads each has a second one; with daemon they are forked twice and outlive nobody: the program
 * waits for them through a pipe; with forever there are always new ones until SIGTERM. Exit status 3,
 * or 1 if a child did not end as it should.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long millions;
static volatile sig_atomic_t over;

__attribute__((noinline)) static unsigned long burn_in_child(void)
{
	volatile unsigned long sum = 0;

	for (unsigned long i = 0; i < millions * 1000000; i++)
		sum = sum + i;
	return sum;
}

static void *second(void *arg)
{
	burn_in_child();
	return arg;
}

__attribute__((noreturn)) static void child(const char *kind, int pipe_end)
{
	pthread_t thread;

	if (strcmp(kind, "daemon") == 0) {
		setsid();
		if (fork() != 0)
			_exit(5);
	}
	if (strcmp(kind, "threads") == 0) {
		if (pthread_create(&thread, NULL, second, NULL) != 0)
			_exit(6);
		burn_in_child();
		pthread_join(thread, NULL);
	} else {
		burn_in_child();
	}
	_exit(write(pipe_end, "x", 1) == 1 ? 5 : 6);
}

static void on_term(int signal)
{
	(void)signal;
	over = 1;
}

static int wait_one(void)
{
	int status;

	return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 0 : 1;
}

int main(int argc, char **argv)
{
	int children = argc > 1 ? atoi(argv[1]) : 1, running = 0, bad = 0, ends[2], done = 0;
	const char *kind = argc > 3 ? argv[3] : "";
	char byte;

	millions = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
	signal(SIGTERM, on_term);
	if (pipe(ends) != 0)
		return 1;
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; (i < children || strcmp(kind, "forever") == 0) && !over; i++) {
		if (fork() == 0) {
			close(ends[0]);
			child(kind, ends[1]);
		}
		if (++running == 2)
			bad += wait_one(), running--;
	}
	while (running--)
		bad += wait_one();
	close(ends[1]);
	while (read(ends[0], &byte, 1) == 1)
		done++;
	if (strcmp(kind, "forever") != 0 && done != children)
		bad++;
	printf("end: %d done, %d bad\n", done, bad);
	return bad ? 1 : strcmp(kind, "forever") == 0 ? 0 : 3;
}
