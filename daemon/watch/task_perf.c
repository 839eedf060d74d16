/*
 * Opening the perf events that tell of tasks: task_perf.h. Daemon, session loop.
 *
 * perf_event_open(2): PERF_COUNT_SW_DUMMY counts nothing; with task, comm, mmap set the kernel
 * writes records about the thread into a buffer. With inherit, what the thread creates gets the
 * event too, before its first instruction; such an event can have a buffer on a single CPU only.
 * inherit_stat makes a descendant write a PERF_RECORD_READ when it ends. The time that an event of a
 * thread was enabled passes only while the thread is on a CPU, whichever.
 */
#include "daemon/watch/task_perf.h"

#include "daemon/linux/descriptor.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct {
	bool records, inherit, ends;
} kinds[] = {
	[KP_TASK_PERF_BUFFER] = { false, false, false },
	[KP_TASK_PERF_LINE] = { true, true, false },
	[KP_TASK_PERF_ENDS] = { false, true, true },
	[KP_TASK_PERF_ONE] = { true, false, false },
	[KP_TASK_PERF_OWN] = { false, false, false },
};

int kp_task_perf_open(enum kp_task_perf kind, pid_t tid, int cpu, bool threads_only)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.task = kinds[kind].records,
		.comm = kinds[kind].records,
		.comm_exec = kinds[kind].records,
		.mmap = kinds[kind].records,
		.mmap2 = kinds[kind].records,
		.inherit = kinds[kind].inherit,
		.inherit_thread = kinds[kind].inherit && threads_only,
		.inherit_stat = kinds[kind].ends,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	return kp_descriptor_take(
		(int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC),
		KP_DESCRIPTOR_WATCH);
}
