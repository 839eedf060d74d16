/*
 * Parsers of /proc/PID files. Daemon and its helper, any thread; no state. /proc is the kernel's,
 * but names in it are the target's: lines are found by their key at a line's start, and comm's
 * newlines come escaped.
 */
#include "daemon/linux/proc.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PF_KTHREAD 0x00200000u
#define USER_HZ 100u /* the same on all our CPUs */

static int gone(pid_t pid, struct kp_err *err)
{
	return kp_fail(err, KP_EGONE, "pid %d: no such process", (int)pid);
}

static bool errno_is_gone(int e)
{
	return e == ENOENT || e == ESRCH;
}

int kp_proc_read(const char *path, char **ret, size_t *ret_size, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(kp_freep) char *text = NULL;
	size_t size = 0, room = 0;

	if (fd < 0)
		return errno_is_gone(errno) ? kp_fail(err, KP_EGONE, "%s: does not exist", path)
					    : kp_fail_errno(err, "%s", path);
	for (;;) {
		ssize_t n;

		if (room - size < 2) {
			char *grown = realloc(text, room = room ? room * 2 : 4096);

			if (!grown)
				return kp_fail_nomem(err);
			text = grown;
		}
		n = read(fd, text + size, room - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno_is_gone(errno)
				       ? kp_fail(err, KP_EGONE, "%s: does not exist any more", path)
				       : kp_fail_errno(err, "%s", path);
		if (n == 0)
			break;
		size += (size_t)n;
	}
	text[size] = 0;
	*ret = kp_take(text);
	if (ret_size)
		*ret_size = size;
	return 0;
}

/* The text behind "key" at the start of a line, blanks skipped; NULL if there is no such line. */
static const char *line_value(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) == 0)
			return line + len + strspn(line + len, " \t");
	}
	return NULL;
}

static uint64_t line_number(const char *text, const char *key, int base)
{
	const char *value = line_value(text, key);

	return value ? strtoull(value, NULL, base) : 0;
}

/* NSpid lists the tid in each pid namespace, outermost first. */
static pid_t innermost_tid(const char *text, pid_t tid)
{
	const char *value = line_value(text, "NSpid:");
	pid_t last = tid;

	while (value && isdigit((unsigned char)*value)) {
		char *end;

		last = (pid_t)strtol(value, &end, 10);
		value = end + strspn(end, " \t");
	}
	return last;
}

static void parse_uids(const char *text, uid_t ret[4])
{
	const char *value = line_value(text, "Uid:");

	for (int i = 0; i < 4 && value; i++) {
		char *end;

		ret[i] = (uid_t)strtoul(value, &end, 10);
		value = end;
	}
}

int kp_proc_status(pid_t pid, pid_t tid, struct kp_proc_status *ret, struct kp_err *err)
{
	_cleanup_(kp_freep) char *text = NULL;
	const char *value;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	r = kp_proc_read(path, &text, NULL, err);
	if (r == -KP_EGONE)
		return gone(pid, err);
	if (r < 0)
		return r;
	*ret = (struct kp_proc_status){ .ns_tid = innermost_tid(text, tid) };
	value = line_value(text, "Name:");
	if (value)
		snprintf(ret->name, sizeof(ret->name), "%.*s", (int)strcspn(value, "\n"), value);
	value = line_value(text, "State:");
	ret->state = value ? *value : '?';
	ret->tgid = (pid_t)line_number(text, "Tgid:", 10);
	ret->ppid = (pid_t)line_number(text, "PPid:", 10);
	ret->tracer = (pid_t)line_number(text, "TracerPid:", 10);
	parse_uids(text, ret->uid);
	ret->threads = (uint32_t)line_number(text, "Threads:", 10);
	ret->seccomp = (uint32_t)line_number(text, "Seccomp:", 10);
	ret->seccomp_filters = (uint32_t)line_number(text, "Seccomp_filters:", 10);
	ret->sig_pending = line_number(text, "SigPnd:", 16);
	ret->shared_pending = line_number(text, "ShdPnd:", 16);
	ret->sig_blocked = line_number(text, "SigBlk:", 16);
	ret->sig_ignored = line_number(text, "SigIgn:", 16);
	ret->sig_caught = line_number(text, "SigCgt:", 16);
	return 0;
}

/* Field number n (from 1; at least 3) of /proc/PID/stat; the comm may contain anything. */
static int stat_field(pid_t pid, int n, uint64_t *ret, struct kp_err *err)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64], *p;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = kp_proc_read(path, &text, NULL, err);
	if (r == -KP_EGONE)
		return gone(pid, err);
	if (r < 0)
		return r;
	p = strrchr(text, ')');
	for (int field = 2; p && field < n; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return kp_fail(err, KP_EBADDATA, "%s: has no field %d", path, n);
	*ret = strtoull(p + 1, NULL, 10);
	return 0;
}

int kp_proc_start_time(pid_t pid, uint64_t *ret, struct kp_err *err)
{
	return stat_field(pid, 22, ret, err);
}

int kp_proc_is_kernel_thread(pid_t pid, bool *ret, struct kp_err *err)
{
	uint64_t flags;
	int r = stat_field(pid, 9, &flags, err);

	if (r < 0)
		return r;
	*ret = flags & PF_KTHREAD;
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

int kp_proc_tasks(pid_t pid, pid_t **ret, size_t *ret_count, struct kp_err *err)
{
	_cleanup_(kp_closedirp) DIR *dir = NULL;
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno_is_gone(errno) ? gone(pid, err) : kp_fail_errno(err, "%s", path);
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (count == room) {
			pid_t *grown =
				reallocarray(tids, room = room ? room * 2 : 64, sizeof(*tids));

			if (!grown)
				return kp_fail_nomem(err);
			tids = grown;
		}
		tids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (count == 0)
		return gone(pid, err);
	qsort(tids, count, sizeof(*tids), compare_pids);
	*ret = kp_take(tids);
	*ret_count = count;
	return 0;
}

static bool has_ended(pid_t pid, pid_t tid)
{
	struct kp_proc_status status;

	return kp_proc_status(pid, tid, &status, NULL) < 0 || status.state == 'Z' ||
	       status.state == 'X';
}

pid_t kp_proc_live_thread(pid_t pid)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;

	if (!has_ended(pid, pid) || kp_proc_tasks(pid, &tids, &count, NULL) < 0)
		return pid;
	for (size_t i = 0; i < count; i++)
		if (!has_ended(pid, tids[i]))
			return tids[i];
	return pid;
}

void kp_proc_comm(pid_t pid, pid_t tid, char *ret, size_t size)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	ret[0] = 0;
	if (kp_proc_read(path, &text, NULL, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = 0;
	snprintf(ret, size, "%s", text);
}

void kp_proc_exe(pid_t pid, char *ret, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, ret, size - 1);
	ret[n > 0 ? n : 0] = 0;
}

void kp_proc_where(pid_t pid, pid_t tid, struct kp_thread_where *ret)
{
	_cleanup_(kp_freep) char *text = NULL;
	unsigned long long args[6], sp, pc;
	char path[64];
	long nr;

	*ret = (struct kp_thread_where){ .place = KP_PLACE_UNKNOWN, .nr = -1 };
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
	if (kp_proc_read(path, &text, NULL, NULL) < 0)
		return;
	if (strncmp(text, "running", 7) == 0) {
		ret->place = KP_PLACE_RUNNING;
	} else if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &nr, &args[0],
			  &args[1], &args[2], &args[3], &args[4], &args[5], &sp, &pc) == 9) {
		*ret = (struct kp_thread_where){ KP_PLACE_SYSCALL, nr, sp, pc, args[0] };
	} else if (sscanf(text, "%ld %llx %llx", &nr, &sp, &pc) == 3) {
		*ret = (struct kp_thread_where){ KP_PLACE_BLOCKED, nr, sp, pc, 0 };
	}
}

int kp_proc_timers(pid_t pid, struct kp_proc_timer **ret, size_t *ret_count, struct kp_err *err)
{
	_cleanup_(kp_freep) struct kp_proc_timer *timers = NULL;
	_cleanup_(kp_freep) char *text = NULL;
	struct kp_proc_timer timer = { 0 };
	size_t count = 0, room = 0;
	unsigned long long value;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/timers", (int)pid);
	r = kp_proc_read(path, &text, NULL, err);
	if (r < 0)
		return r;
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "ID: %d", &timer.id) == 1)
			continue;
		if (sscanf(line, "signal: %d/%llx", &timer.signal, &value) != 2)
			continue;
		timer.value = value;
		if (count == room) {
			struct kp_proc_timer *grown =
				reallocarray(timers, room = room ? room * 2 : 64, sizeof(*timers));

			if (!grown)
				return kp_fail_nomem(err);
			timers = grown;
		}
		timers[count++] = timer;
	}
	*ret = kp_take(timers);
	*ret_count = count;
	return 0;
}

bool kp_proc_cpu_ns(pid_t pid, uint64_t *ret)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0)
		return false;
	*ret = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return true;
}

bool kp_proc_waited_cpu_ns(pid_t pid, uint64_t *ret)
{
	uint64_t user, kernel;

	if (stat_field(pid, 16, &user, NULL) < 0 || stat_field(pid, 17, &kernel, NULL) < 0)
		return false;
	*ret = (user + kernel) * (1000000000u / USER_HZ);
	return true;
}

bool kp_proc_sched(pid_t pid, pid_t tid, struct kp_proc_sched *ret)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	return kp_proc_read(path, &text, NULL, NULL) == 0 &&
	       sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ret->cpu_ns, &ret->delay_ns,
		      &ret->runs) == 3;
}

bool kp_proc_thread_cpu_ns(pid_t pid, pid_t tid, uint64_t *ret)
{
	struct kp_proc_sched sched;

	if (!kp_proc_sched(pid, tid, &sched))
		return false;
	*ret = sched.cpu_ns;
	return true;
}

char kp_proc_state(pid_t pid, pid_t tid)
{
	_cleanup_(kp_freep) char *text = NULL;
	char path[64];
	const char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	if (kp_proc_read(path, &text, NULL, NULL) < 0)
		return 0;
	name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}
