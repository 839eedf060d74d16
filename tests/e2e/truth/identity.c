/*
 * identity: prints what a process gets from the one that starts it: descriptors, signals, limits,
 * environment, terminal and the rest. Output with and without kitprof must be the same.
 *
 * identity odd COMMAND...: sets as much of that as it can to something unusual, then execs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void show_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int fd[1024], count = 0;

	while (dir && (entry = readdir(dir)) && count < 1024)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			fd[count++] = atoi(entry->d_name);
	qsort(fd, (size_t)count, sizeof(fd[0]), compare);
	for (int i = 0; i < count; i++) {
		char path[64], target[512] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[i]);
		if (readlink(path, target, sizeof(target) - 1) < 0)
			perror(path);
		printf("fd %d %s flags %#x %#x\n", fd[i], target, fcntl(fd[i], F_GETFL),
		       fcntl(fd[i], F_GETFD));
	}
	if (dir)
		closedir(dir);
}

/* Without the signals that kitprof may sample with. */
static void show_caught(const char *line)
{
	uint64_t sampling = UINT64_C(1) << (SIGURG - 1) | UINT64_C(1) << (SIGPROF - 1);

	printf("SigCgt: %#llx\n", (unsigned long long)(strtoull(line, NULL, 16) & ~sampling));
}

static void show_status(void)
{
	static const char *const keys[] = { "Umask:",	     "TracerPid:", "Uid:",	  "Gid:",
					    "Groups:",	     "SigPnd:",	   "ShdPnd:",	  "SigBlk:",
					    "SigIgn:",	     "Cap",	   "NoNewPrivs:", "Seccomp",
					    "Cpus_allowed:", "Threads:" };
	FILE *f = fopen("/proc/self/status", "r");
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (strncmp(line, keys[i], strlen(keys[i])) == 0)
				fputs(line, stdout);
		if (strncmp(line, "SigCgt:", 7) == 0)
			show_caught(line + 7);
	}
	if (f)
		fclose(f);
}

static void show_file(const char *path)
{
	FILE *f = fopen(path, "r");
	int c;

	printf("%s:\n", path);
	while (f && (c = getc(f)) != EOF)
		putchar(c ? c : '\n');
	if (f)
		fclose(f);
}

/* Process group, session, terminal and its foreground group: fields 5 to 8 behind the name. */
static void show_session(void)
{
	FILE *f = fopen("/proc/self/stat", "r");
	int group, session, tty, foreground;

	if (!f ||
	    fscanf(f, "%*d (%*[^)]) %*c %*d %d %d %d %d", &group, &session, &tty, &foreground) != 4)
		printf("no /proc/self/stat\n");
	else
		printf("group %d session %d terminal %d foreground %d\n", group, session, tty,
		       foreground);
	if (f)
		fclose(f);
}

static void show_rest(void)
{
	struct itimerval timer[3];
	unsigned long slack = (unsigned long)prctl(PR_GET_TIMERSLACK);
	stack_t alt;
	int death = 0, reaper = 0;
	char path[512] = "";

	prctl(PR_GET_PDEATHSIG, &death);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	sigaltstack(NULL, &alt);
	for (int i = 0; i < 3; i++)
		getitimer(i, &timer[i]);
	if (!getcwd(path, sizeof(path)))
		perror("getcwd");
	printf("cwd %s nice %d policy %d personality %#x\n", path, getpriority(PRIO_PROCESS, 0),
	       sched_getscheduler(0), (unsigned)personality(0xffffffff));
	printf("dumpable %d death signal %d reaper %d slack %lu altstack %d\n",
	       prctl(PR_GET_DUMPABLE), death, reaper, slack, alt.ss_flags);
	printf("timers %ld %ld %ld\n", (long)timer[0].it_value.tv_sec,
	       (long)timer[1].it_value.tv_usec, (long)timer[2].it_value.tv_usec);
	printf("children: %s\n", waitpid(-1, NULL, WNOHANG) < 0 ? strerror(errno) : "some");
	printf("executable %s secure %lu\n", (const char *)getauxval(AT_EXECFN),
	       getauxval(AT_SECURE));
}

static int be_odd(char **argv)
{
	struct rlimit files = { 123, 456 }, core = { 0, 0 };
	sigset_t set;

	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (dup2(0, 9) < 0 || dup2(1, 50) < 0 || setpriority(PRIO_PROCESS, 0, 7) != 0 ||
	    chdir("/") != 0)
		return 97;
	umask(027);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_CORE, &core);
	prctl(PR_SET_TIMERSLACK, 77777);
	execvp(argv[0], argv);
	return 96;
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "odd") == 0)
		return be_odd(argv + 2);
	show_descriptors();
	show_status();
	show_session();
	show_rest();
	show_file("/proc/self/limits");
	show_file("/proc/self/environ");
	show_file("/proc/self/cmdline");
	show_file("/proc/self/comm");
	show_file("/proc/self/oom_score_adj");
	return 0;
}
