/* Which processes are meant by "all": census.h. Daemon; reads /proc, touches nothing. */
#include "daemon/linux/census.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define ANCESTORS_MAX 200 /* of a process; a chain that changes under our eyes might have no end */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* /proc/self is a number of the PID namespace that /proc was mounted for. */
static bool is_proc_ours(void)
{
	char text[16], *end;
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return strtol(text, &end, 10) == (long)getpid() && !*end;
}

int kp_census_init(struct kp_census *ret, bool everyone, uid_t uid, pid_t kitprof,
		   struct kp_err *err)
{
	*ret = (struct kp_census){ .everyone = everyone, .uid = uid, .kitprof = kitprof };
	if (!is_proc_ours())
		return kp_fail(err, KP_EREFUSED,
			       "/proc shows the processes of another PID namespace than "
			       "kitprofd's; mount one of its own (unshare --mount-proc)");
	if (stat("/proc/self/ns/pid", &ret->space) != 0)
		return kp_fail_errno(err, "/proc/self/ns/pid");
	if (stat("/proc/self/exe", &ret->exe) != 0)
		return kp_fail_errno(err, "/proc/self/exe");
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

int kp_census_list(pid_t **ret, size_t *ret_count, struct kp_err *err)
{
	_cleanup_(kp_closedirp) DIR *dir = opendir("/proc");
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;

	if (!dir)
		return kp_fail_errno(err, "/proc");
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (count == room) {
			pid_t *grown =
				reallocarray(pids, room = room ? room * 2 : 256, sizeof(*pids));

			if (!grown)
				return kp_fail_nomem(err);
			pids = grown;
		}
		pids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	qsort(pids, count, sizeof(*pids), compare_pids);
	*ret = kp_take(pids);
	*ret_count = count;
	return 0;
}

/*
 * Which namespace a process is in is told to those who might trace it. Others cannot be profiled
 * either, so that nothing is lost by not guessing.
 */
static enum kp_census_kind judge_space(const struct kp_census *census, pid_t pid)
{
	struct stat space;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &space) != 0)
		return errno == ENOENT || errno == ESRCH ? KP_CENSUS_GONE : KP_CENSUS_HIDDEN;
	return is_same(&space, &census->space) ? KP_CENSUS_WANTED : KP_CENSUS_ELSEWHERE;
}

/* By name as well: client and server are two programs, and there may be several versions. */
static bool executes_kitprof(const struct kp_census *census, pid_t pid)
{
	static const char *const names[] = { "kitprof", "kitprofd", "kitprof (deleted)",
					     "kitprofd (deleted)" };
	char path[64], exe[4096];
	const char *slash;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &st) == 0 && is_same(&st, &census->exe))
		return true;
	kp_proc_exe(pid, exe, sizeof(exe));
	slash = strrchr(exe, '/');
	for (size_t i = 0; slash && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(slash + 1, names[i]) == 0)
			return true;
	return false;
}

static bool descends_from(pid_t pid, pid_t ppid, pid_t ancestor)
{
	for (int i = 0; ancestor && pid > 0 && i < ANCESTORS_MAX; i++) {
		struct kp_proc_status status;

		if (pid == ancestor)
			return true;
		pid = ppid;
		if (pid <= 0 || kp_proc_status(pid, pid, &status, NULL) < 0)
			return false;
		ppid = status.ppid;
	}
	return false;
}

/* A zombie whose other threads live has not ended. */
static bool is_over(const struct kp_proc_status *status)
{
	return status->state == 'X' || (status->state == 'Z' && status->threads <= 1);
}

bool kp_census_is_still_wanted(const struct kp_census *census, pid_t pid,
			       const struct kp_proc_status *status)
{
	return (census->everyone || status->uid[1] == census->uid) &&
	       judge_space(census, pid) == KP_CENSUS_WANTED && !executes_kitprof(census, pid);
}

enum kp_census_kind kp_census_judge(const struct kp_census *census, pid_t pid,
				    struct kp_proc_status *ret_status)
{
	enum kp_census_kind kind;
	bool kernel;

	if (kp_proc_status(pid, pid, ret_status, NULL) < 0 || is_over(ret_status))
		return KP_CENSUS_GONE;
	if (!census->everyone && ret_status->uid[1] != census->uid)
		return KP_CENSUS_OTHER_USER;
	if (kp_proc_is_kernel_thread(pid, &kernel, NULL) < 0)
		return KP_CENSUS_GONE;
	if (kernel)
		return KP_CENSUS_KERNEL;
	kind = judge_space(census, pid);
	if (kind != KP_CENSUS_WANTED)
		return kind;
	if (pid == getpid() || descends_from(pid, ret_status->ppid, census->kitprof) ||
	    executes_kitprof(census, pid))
		return KP_CENSUS_KITPROF;
	return KP_CENSUS_WANTED;
}
