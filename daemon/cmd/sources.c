/*
 * kitprof sources: what this machine can sample with, and whether a process could be. Asks and
 * tries, on kitprof itself; a process is only looked at.
 */
#include "daemon/cmd/sources.h"

#include "common/cleanup.h"
#include "daemon/cmd/cmd.h"
#include "daemon/linux/proc.h"
#include "daemon/watch/task_events.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>

#define USAGE "kitprof sources [options] [--pid PID]"

static bool has_capability(unsigned capability)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &head, data) == 0 &&
	       data[capability / 32].effective >> capability % 32 & 1;
}

static long yama_scope(void)
{
	_cleanup_(kp_freep) char *text = NULL;

	return kp_proc_read("/proc/sys/kernel/yama/ptrace_scope", &text, NULL, NULL) == 0
		       ? atol(text)
		       : -1;
}

/* x86 CPUs have a flag for it; others do not say. */
static bool is_virtual(void)
{
	_cleanup_(kp_freep) char *text = NULL;

	return kp_proc_read("/proc/cpuinfo", &text, NULL, NULL) == 0 && strstr(text, " hypervisor");
}

static void try_task_events(struct kp_err *ret)
{
	struct kp_task_events *events = NULL;

	if (kp_task_events_create(false, &events, ret) == 0)
		ret->code = 0;
	kp_task_events_destroy(events);
}

static void try_timers_file(struct kp_err *ret)
{
	_cleanup_(kp_freep) struct kp_proc_timer *timers = NULL;
	size_t count;

	if (kp_proc_timers(getpid(), &timers, &count, ret) == 0)
		ret->code = 0;
}

static void ask(const struct kp_options *o, struct kp_sources *ret)
{
	struct kp_proc_status self = { 0 };

	*ret = (struct kp_sources){ .pid = o->pid, .rate_mhz = o->rate_mhz, .wish = o->clock };
	kp_clock_host_ask(true, &ret->host);
	try_task_events(&ret->task_events);
	try_timers_file(&ret->timers_file);
	ret->yama = yama_scope();
	ret->cap_perfmon = has_capability(CAP_PERFMON);
	ret->cap_sys_admin = has_capability(CAP_SYS_ADMIN);
	ret->cap_sys_ptrace = has_capability(CAP_SYS_PTRACE);
	kp_proc_status(getpid(), getpid(), &self, NULL);
	ret->seccomp = self.seccomp;
	ret->hypervisor = is_virtual();
	if (o->pid && kp_target_check(o->pid, o->signal, &ret->target, &ret->refused) >= 0)
		ret->refused.code = 0;
}

int kp_cmd_sources(int argc, char **argv)
{
	struct kp_options options;
	struct kp_sources sources;
	struct kp_err err;
	char text[192];

	if (kp_options_parse(KP_COMMAND_SOURCES, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_SOURCES, USAGE,
			   "Says what this machine can sample with, and whether a process could be "
			   "profiled."))
		return KP_EXIT_OK;
	if (options.rest[0]) {
		snprintf(text, sizeof(text), "sources: unexpected argument %.60s: " USAGE,
			 options.rest[0]);
		kp_cmd_say("kitprof", text);
		return KP_EXIT_USAGE;
	}
	ask(&options, &sources);
	kp_sources_print(&sources, stdout);
	return options.pid && sources.refused.code ? KP_EXIT_ERROR : KP_EXIT_OK;
}
