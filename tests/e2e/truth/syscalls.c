/*
 * syscalls getppid|read: uses 4 s of CPU time, about 70 % of it in system calls, and prints what
 * the kernel says of it: microseconds in user mode and in system mode. A read takes so long that its
 * way in and out, with interrupts off, does not count: to the kernel's ticks that is user mode.
 */
#include "burn.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((noinline)) static void call_kernel(bool reads, int zero, double until)
{
	static char room[1 << 20];

	while (cpu_seconds() < until) {
		for (int i = 0; i < 1000 && !reads; i++)
			syscall(SYS_getppid);
		for (int i = 0; i < 4 && reads; i++)
			if (read(zero, room, sizeof(room)) <= 0)
				return;
	}
}

__attribute__((noinline)) static void compute(double until)
{
	while (cpu_seconds() < until)
		BURN(50000);
}

int main(int argc, char **argv)
{
	bool reads = argc == 2 && strcmp(argv[1], "read") == 0;
	int zero = open("/dev/zero", O_RDONLY);
	struct rusage usage;

	alarm(120);
	for (double now = 0; now < 4; now += 0.05) {
		call_kernel(reads, zero, now + 0.035);
		compute(now + 0.05);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld %ld\n", (long)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec,
	       (long)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec);
	return 0;
}
