/* Names of result files: name.h. Daemon; looks whether files exist, creates none. */
#include "daemon/serve/name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIES 1000

static bool is_harmless(unsigned char c)
{
	return c < 0x80 && (isalnum(c) || strchr("._+-", c));
}

/* A name does not begin with what hides a file or looks like an option. */
static void sanitise(const char *comm, char *ret, size_t size)
{
	size_t n = 0;

	for (; comm[n] && n < size - 1; n++) {
		bool is_first = n == 0 && (comm[n] == '.' || comm[n] == '-');

		ret[n] = is_harmless((unsigned char)comm[n]) && !is_first ? comm[n] : '_';
	}
	ret[n] = 0;
	if (n == 0)
		snprintf(ret, size, "process");
}

static bool is_taken(const char *base, size_t size)
{
	static const char *const extensions[] = { ".kitprof", ".folded", ".flat" };
	char path[4200];

	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		snprintf(path, sizeof(path), "%.*s%s", (int)size, base, extensions[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

const char *kp_result_name(const char *dir, const char *comm, pid_t pid, time_t when, char *ret,
			   size_t size)
{
	char name[65], of[16] = "", at[32] = "", again[16] = "";
	struct tm tm;

	sanitise(comm, name, sizeof(name));
	if (pid)
		snprintf(of, sizeof(of), "-%d", (int)pid);
	if (gmtime_r(&when, &tm))
		strftime(at, sizeof(at), "%Y%m%dT%H%M%SZ", &tm);
	for (int i = 2; i < TRIES; i++) {
		int n = snprintf(ret, size, "%s/%s%s-%s%s", dir, name, of, at, again);

		if (n < 0 || (size_t)n >= size)
			break;
		if (!is_taken(ret, size))
			return ret;
		snprintf(again, sizeof(again), "-%d", i);
	}
	ret[0] = 0;
	return ret;
}
