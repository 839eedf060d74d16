/*
 * What the victims of the harm tests have in common. A victim says "ready" on stdout when it is in
 * the state that the test is about, goes on until SIGTERM, and then exits with 0 if nothing has
 * happened to it that would not have happened without kitprof.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t victim_stopped;

static inline void victim_on_term(int signal)
{
	(void)signal;
	victim_stopped = 1;
}

/* SA_RESTART: only the flag tells. */
static inline void victim_end_on_term(void)
{
	struct sigaction action = { .sa_handler = victim_on_term, .sa_flags = SA_RESTART };

	sigaction(SIGTERM, &action, NULL);
}

static inline void victim_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* The victim itself cannot do what the test needs. */
static inline void victim_give_up(const char *what)
{
	printf("cannot: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(99);
}

static inline uint64_t victim_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void victim_sleep_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
		;
}

/* Some microseconds of user time, by one function call deep. */
static __attribute__((noinline, unused)) unsigned victim_spin(unsigned x)
{
	for (int i = 0; i < 5000; i++)
		x = x * 1103515245u + 12345u;
	return x;
}
