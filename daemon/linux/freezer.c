/* Frozen processes: freezer.h. Daemon; reading only. Files: cgroups(7). */
#include "daemon/linux/freezer.h"

#include "common/cleanup.h"
#include "daemon/linux/proc.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool says(const char *hierarchy, const char *cgroup, const char *file, const char *word)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", hierarchy, cgroup, file);

	return n > 0 && (size_t)n < sizeof(path) && kp_proc_read(path, &text, NULL, NULL) == 0 &&
	       strstr(text, word);
}

/* A line of /proc/PID/cgroup: "0::/a/b" is version 2's, "7:freezer:/a/b" may be version 1's. */
static bool is_frozen_by(char *line)
{
	char *controllers = strchr(line, ':');
	char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!cgroup)
		return false;
	*cgroup++ = '\0';
	controllers++;
	if (!controllers[0])
		return says("", cgroup, "cgroup.events", "frozen 1") ||
		       says("/unified", cgroup, "cgroup.events", "frozen 1");
	return strcmp(controllers, "freezer") == 0 &&
	       (says("/freezer", cgroup, "freezer.state", "FROZEN") ||
		says("/freezer", cgroup, "freezer.state", "FREEZING"));
}

bool kp_is_frozen(pid_t pid)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64], *rest;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (kp_proc_read(path, &text, NULL, NULL) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (is_frozen_by(line))
			return true;
	return false;
}
