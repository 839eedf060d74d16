/* Unit tests of what "all processes" means, on children of this process; none is touched. */
#include "common/cleanup.h"
#include "daemon/linux/census.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static struct kp_err err;
static struct kp_proc_status status;

static struct kp_census census_of(bool everyone, uid_t uid, pid_t kitprof)
{
	struct kp_census census;

	cr_assert_eq(kp_census_init(&census, everyone, uid, kitprof, &err), 0);
	/* All that is forked here executes the same program as we do. */
	census.exe.st_ino = 0;
	return census;
}

static enum kp_census_kind judge(const struct kp_census *census, pid_t pid)
{
	return kp_census_judge(census, pid, &status);
}

/* A child that does prepare() and then waits to be killed, also when this process ends. */
static pid_t sleeper(void (*prepare)(int fd))
{
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare)
			prepare(ready[1]);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(census, a_process_of_the_user_is_wanted)
{
	struct kp_census census = census_of(false, geteuid(), 0);
	pid_t child = sleeper(NULL);

	cr_assert_eq(judge(&census, child), KP_CENSUS_WANTED);
	cr_assert_eq(status.ppid, getpid());
	end(child);
}

Test(census, what_has_ended_is_gone)
{
	struct kp_census census = census_of(true, 0, 0);
	pid_t child = sleeper(NULL);
	siginfo_t info;

	kill(child, SIGKILL);
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	cr_assert_eq(judge(&census, child), KP_CENSUS_GONE); /* a zombie */
	end(child);
	cr_assert_eq(judge(&census, child), KP_CENSUS_GONE);
}

static void become_nobody(int fd)
{
	(void)fd;
	if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		_exit(2);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user has cleared it */
}

Test(census, another_users_process_is_wanted_of_everyone_only)
{
	struct kp_census mine = census_of(false, geteuid(), 0), all = census_of(true, 0, 0),
			 theirs = census_of(false, NOBODY, 0);
	pid_t child;

	if (geteuid() != 0)
		return; /* nobody else to be */
	child = sleeper(become_nobody);
	cr_assert_eq(judge(&mine, child), KP_CENSUS_OTHER_USER);
	cr_assert_eq(judge(&theirs, child), KP_CENSUS_WANTED);
	cr_assert_eq(judge(&all, child), KP_CENSUS_WANTED);
	end(child);
}

/* As in a set-uid program: what counts is as whom it acts. */
static void act_as_nobody(int fd)
{
	(void)fd;
	if (setresuid(0, NOBODY, 0) != 0)
		_exit(2);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

Test(census, the_effective_user_counts)
{
	struct kp_census mine = census_of(false, 0, 0), theirs = census_of(false, NOBODY, 0);
	pid_t child;

	if (geteuid() != 0)
		return;
	child = sleeper(act_as_nobody);
	cr_assert_eq(judge(&mine, child), KP_CENSUS_OTHER_USER);
	cr_assert_eq(judge(&theirs, child), KP_CENSUS_WANTED);
	end(child);
}

/* Children of this one are in a PID namespace of their own; where that is permitted it has one. */
static void enter_namespace(int fd)
{
	(void)fd;
	if (unshare(CLONE_NEWPID) != 0)
		return;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
}

static pid_t only_child_of(pid_t pid)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	cr_assert_eq(kp_proc_read(path, &text, NULL, &err), 0);
	return (pid_t)atoi(text);
}

Test(census, another_pid_namespace_is_elsewhere)
{
	struct kp_census census = census_of(true, 0, 0);
	pid_t child = sleeper(enter_namespace), inner = only_child_of(child);

	cr_assert_eq(judge(&census, child), KP_CENSUS_WANTED);
	if (inner) {
		cr_assert_eq(judge(&census, inner), KP_CENSUS_ELSEWHERE);
		kill(inner, SIGKILL);
	}
	end(child);
}

/* Without a /proc of its own a namespace has numbers that mean somebody else. */
Test(census, another_namespaces_proc_is_refused)
{
	int verdict = 0;
	pid_t child = fork();

	if (child == 0) {
		struct kp_census census;

		if (unshare(CLONE_NEWPID) != 0)
			_exit(77);
		child = fork();
		if (child == 0)
			_exit(kp_census_init(&census, true, 0, 0, NULL) == -KP_EREFUSED ? 0 : 1);
		waitpid(child, &verdict, 0);
		_exit(WEXITSTATUS(verdict));
	}
	waitpid(child, &verdict, 0);
	cr_assert(WEXITSTATUS(verdict) == 0 || WEXITSTATUS(verdict) == 77);
}

Test(census, kernel_threads_are_told_apart)
{
	struct kp_census census = census_of(true, 0, 0);
	bool kernel;

	if (kp_proc_is_kernel_thread(2, &kernel, NULL) < 0 || !kernel)
		return; /* a namespace without them */
	cr_assert_eq(judge(&census, 2), KP_CENSUS_KERNEL);
}

static void fork_one(int fd)
{
	(void)fd;
	sleeper(NULL);
}

Test(census, kitprof_and_its_descendants_are_left_out)
{
	struct kp_census census;
	pid_t server = sleeper(fork_one), other = sleeper(NULL), worker = only_child_of(server);

	cr_assert_gt(worker, 0);
	census = census_of(true, 0, server);
	cr_assert_eq(judge(&census, server), KP_CENSUS_KITPROF);
	cr_assert_eq(judge(&census, worker), KP_CENSUS_KITPROF);
	cr_assert_eq(judge(&census, other), KP_CENSUS_WANTED);
	cr_assert_eq(judge(&census, getpid()), KP_CENSUS_KITPROF); /* whoever looks */
	end(other);
	kill(worker, SIGKILL);
	end(server);
}

static char program[64];

static void execute(int fd)
{
	(void)fd;
	execl(program, program, "60", (char *)NULL);
	_exit(2);
}

static bool copy_file(const char *from, const char *to)
{
	char command[160];

	snprintf(command, sizeof(command), "cp %s %s", from, to);
	return system(command) == 0;
}

/* execute() never says that it is ready; its exec closes the pipe. */
static pid_t start_program(const char *path)
{
	pid_t pid;

	snprintf(program, sizeof(program), "%s", path);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execute(-1);
	}
	for (int i = 0; i < 500; i++) {
		char exe[64];

		kp_proc_exe(pid, exe, sizeof(exe));
		if (strncmp(exe, path, strlen(path)) == 0)
			break;
		usleep(10000);
	}
	return pid;
}

Test(census, programs_named_kitprof_are_left_out)
{
	char dir[] = "/tmp/kp-census.XXXXXX", client[64], sleeping[64];
	struct kp_census census = census_of(true, 0, 0);
	pid_t pid;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(client, sizeof(client), "%s/kitprof", dir);
	snprintf(sleeping, sizeof(sleeping), "%s/kitproof", dir);
	cr_assert(copy_file("/bin/sleep", client) && copy_file("/bin/sleep", sleeping));
	pid = start_program(client);
	cr_assert_eq(judge(&census, pid), KP_CENSUS_KITPROF);
	unlink(client); /* as after an upgrade */
	cr_assert_eq(judge(&census, pid), KP_CENSUS_KITPROF);
	end(pid);
	pid = start_program(sleeping);
	cr_assert_eq(judge(&census, pid), KP_CENSUS_WANTED);
	unlink(sleeping);
	end(pid);
	rmdir(dir);
}

Test(census, the_same_program_is_left_out_whatever_its_name)
{
	struct kp_census census;
	pid_t child = sleeper(NULL);

	cr_assert_eq(kp_census_init(&census, true, 0, 0, &err), 0);
	cr_assert_eq(judge(&census, child), KP_CENSUS_KITPROF);
	end(child);
}

Test(census, a_list_has_every_process_once_in_order)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	pid_t child = sleeper(NULL);
	bool has_self = false, has_child = false;
	size_t count;

	cr_assert_eq(kp_census_list(&pids, &count, &err), 0);
	for (size_t i = 0; i < count; i++) {
		has_self |= pids[i] == getpid();
		has_child |= pids[i] == child;
		cr_assert(i == 0 || pids[i - 1] < pids[i]);
	}
	cr_assert(has_self && has_child);
	end(child);
}
