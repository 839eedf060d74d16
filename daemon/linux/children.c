/* The children of a process: children.h. Daemon; no state. */
#include "daemon/linux/children.h"

#include "common/cleanup.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int append(const char *text, pid_t **pids, size_t *count)
{
	char *end;

	for (long pid; (pid = strtol(text, &end, 10)) > 0 && end != text; text = end) {
		pid_t *grown = reallocarray(*pids, *count + 1, sizeof(*grown));

		if (!grown)
			return -1;
		*pids = grown;
		grown[(*count)++] = (pid_t)pid;
	}
	return 0;
}

size_t kp_proc_children(pid_t pid, pid_t **ret)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t threads, count = 0;

	*ret = NULL;
	if (kp_proc_tasks(pid, &tids, &threads, NULL) < 0)
		return 0;
	for (size_t i = 0; i < threads; i++) {
		_cleanup_(kp_freep) char *text = NULL;
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tids[i]);
		if (kp_proc_read(path, &text, NULL, NULL) == 0 && append(text, ret, &count) < 0)
			break;
	}
	return count;
}

bool kp_proc_share_memory(pid_t a, pid_t b)
{
	long r = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);

	return r == 0 || (r < 0 && errno != ESRCH);
}

/* As the thread that called vfork() does: "D (disk sleep)". */
static bool stands_still(pid_t pid)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;

	if (kp_proc_tasks(pid, &tids, &count, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct kp_proc_status status;

		if (kp_proc_status(pid, tids[i], &status, NULL) == 0 && status.state == 'D')
			return true;
	}
	return false;
}

bool kp_proc_is_vforked(pid_t pid, pid_t parent)
{
	long r = parent > 0 ? syscall(SYS_kcmp, parent, pid, KCMP_VM, 0, 0) : 1;

	if (r < 0 && errno != ESRCH)
		return stands_still(parent);
	return r == 0;
}
