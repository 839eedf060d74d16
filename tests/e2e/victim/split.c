/*
 * split MODE	one thread that runs for 3 ms and waits for 7 ms, in turns, until SIGTERM. It runs in
 *		in_run(), and waits in in_wait(), by MODE:
 *	sleep	nanosleep
 *	read	read from a pipe into which another thread writes, 7 ms after it was asked to
 *	epoll	epoll_wait with a timeout
 *	futex	a condition variable with a timeout
 * Says at its end how long it ran and waited, in ms.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#define MS UINT64_C(1000000)
#define RUN_NS (3 * MS)
#define WAIT_MS 7

static int pipe_fds[2], ask_fds[2], epoll_fd;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int errors;

static __attribute__((noinline)) unsigned in_run(unsigned x)
{
	struct timespec ts;
	uint64_t end, now;

	/* CPU time, so that other programs do not shorten it. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	end = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + RUN_NS;
	do {
		for (int i = 0; i < 3000; i++)
			x = x * 1103515245u + 1;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	} while (now < end);
	return x;
}

static __attribute__((noinline)) int in_wait(const char *mode)
{
	struct timespec until, pause = { .tv_nsec = WAIT_MS * (long)MS };
	struct epoll_event event;
	char byte;

	if (strcmp(mode, "read") == 0)
		return write(ask_fds[1], "x", 1) == 1 && read(pipe_fds[0], &byte, 1) == 1 ? 0
											  : errno;
	if (strcmp(mode, "epoll") == 0)
		return epoll_wait(epoll_fd, &event, 1, WAIT_MS) == 0 ? 0 : errno;
	if (strcmp(mode, "sleep") == 0)
		return nanosleep(&pause, NULL) == 0 ? 0 : errno;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += pause.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	pthread_cond_timedwait(&condition, &lock, &until);
	pthread_mutex_unlock(&lock);
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *work(void *mode)
{
	uint64_t start = victim_now_ns();
	unsigned x = 1;

	prctl(PR_SET_NAME, "splitter");
	while (!victim_stopped) {
		x = in_run(x);
		if (in_wait(mode) != 0)
			errors++;
	}
	printf("ran %u waited %u errors %d\n", (unsigned)(cpu_ns() / MS),
	       (unsigned)((victim_now_ns() - start - cpu_ns()) / MS), errors);
	return (void *)(uintptr_t)x;
}

/* The other end of the pipe. */
static void *feed(void *unused)
{
	char byte;

	(void)unused;
	while (read(ask_fds[0], &byte, 1) == 1) {
		victim_sleep_ms(WAIT_MS);
		if (write(pipe_fds[1], &byte, 1) != 1)
			errors++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker = 0, feeder = 0;
	char *mode = argc > 1 ? argv[1] : "sleep";

	victim_end_on_term();
	epoll_fd = epoll_create1(0);
	if (epoll_fd < 0 || pipe(pipe_fds) != 0 || pipe(ask_fds) != 0 ||
	    pthread_create(&feeder, NULL, feed, NULL) != 0 ||
	    pthread_create(&worker, NULL, work, mode) != 0)
		victim_give_up("pthread_create");
	victim_ready();
	pthread_join(worker, NULL);
	close(ask_fds[1]);
	pthread_join(feeder, NULL);
	return errors ? 1 : 0;
}
