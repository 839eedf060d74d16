/*
 * Opening the perf events that are clocks: perf_event.h. Daemon.
 *
 * perf_event_open(2). exclude_kernel: an overflow that finds the thread in the kernel raises
 * nothing, so no system call is interrupted. remove_on_exec: no signal reaches another program.
 * inherit is off: with it the signals go to the main thread.
 */
#include "daemon/clock/perf_event.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#define PARANOID_USER 2 /* up to here users may watch their own threads in user mode */

static const struct {
	uint32_t type;
	uint64_t config;
	const char *name;
} kinds[] = {
	[KP_EVENT_TASK_CLOCK] = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "task-clock" },
	[KP_EVENT_CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles" },
};

int kp_perf_event_open(enum kp_event_kind kind, pid_t tid, uint64_t count)
{
	struct perf_event_attr attr = {
		.type = kinds[kind].type,
		.size = sizeof(attr),
		.config = kinds[kind].config,
		.sample_period = count,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.wakeup_events = 1,
		.remove_on_exec = 1,
	};

	return kp_descriptor_take(
		(int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC),
		KP_DESCRIPTOR_CLOCK);
}

bool kp_perf_event_ran(int fd, uint64_t *ret_ns)
{
	/* As read_format has it. */
	struct {
		uint64_t value, enabled_ns, running_ns;
	} counted;

	if (read(fd, &counted, sizeof(counted)) != (ssize_t)sizeof(counted))
		return false;
	*ret_ns = counted.enabled_ns;
	return true;
}

static long setting(const char *path)
{
	_cleanup_(kp_freep) char *text = NULL;

	return kp_proc_read(path, &text, NULL, NULL) == 0 ? atol(text) : -1;
}

long kp_perf_paranoid(void)
{
	return setting("/proc/sys/kernel/perf_event_paranoid");
}

long kp_perf_sample_rate_max(void)
{
	return setting("/proc/sys/kernel/perf_event_max_sample_rate");
}

static int explain_denied(struct kp_err *err)
{
	long paranoid = kp_perf_paranoid();

	if (paranoid > PARANOID_USER)
		return kp_fail(err, KP_ESYSTEM,
			       "perf events are not allowed (kernel.perf_event_paranoid is %ld; 2 "
			       "or less, root or "
			       "CAP_PERFMON would allow them)",
			       paranoid);
	return kp_fail(err, KP_ESYSTEM,
		       "perf events are not allowed, although kernel.perf_event_paranoid is %ld (a "
		       "seccomp filter, "
		       "as containers have, or a security module)",
		       paranoid);
}

int kp_perf_event_explain(enum kp_event_kind kind, pid_t tid, struct kp_err *err)
{
	switch (errno) {
	case ESRCH:
		return kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid);
	case EACCES:
	case EPERM:
		return explain_denied(err);
	case ENOSYS:
		return kp_fail(err, KP_ESYSTEM, "this system has no perf events");
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return kp_fail(err, KP_ESYSTEM, "this machine has no %s event to sample with",
			       kinds[kind].name);
	default:
		return kp_fail_errno(err, "perf_event_open(%s) for thread %d", kinds[kind].name,
				     (int)tid);
	}
}

int kp_perf_event_probe(enum kp_event_kind kind, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = kp_perf_event_open(kind, 0, 1000000000);

	return fd >= 0 ? 0 : kp_perf_event_explain(kind, 0, err);
}
