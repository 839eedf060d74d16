/*
 * What a command costs itself, whoever else watches it: cost FILE COMMAND ARGS...
 * Runs it as a child and writes to FILE: CPU time in s (its own and that of all that it waited for),
 * elapsed time in s. Exits with its status. So a profiler's own cost can be told from its target's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	double start = now_s();
	int status;
	pid_t pid;
	FILE *out;

	if (argc < 3)
		return 125;
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		return 125;
	out = fopen(argv[1], "w");
	if (!out)
		return 125;
	fprintf(out, "%.6f %.6f\n", seconds(usage.ru_utime) + seconds(usage.ru_stime),
		now_s() - start);
	if (fclose(out) != 0)
		return 125;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
