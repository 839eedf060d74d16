/* What this machine can sample with: asked by sources.c, put into words by sources_text.c. */
#pragma once

#include "common/err.h"
#include "daemon/attach/target.h"
#include "daemon/clock/choose.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct kp_sources {
	struct kp_clock_host host;
	struct kp_err
		task_events; /* code 0: births and execs are said by the kernel; else why not */
	struct kp_err timers_file; /* code 0: /proc/PID/timers is there; else why not */
	long yama; /* kernel.yama.ptrace_scope, -1: no such file */
	bool cap_perfmon, cap_sys_admin, cap_sys_ptrace;
	uint32_t seccomp; /* of kitprof: 0 none, 1 strict, 2 filter */
	bool hypervisor; /* the CPU says that it is a virtual one */

	enum kp_clock_wish wish;
	uint64_t rate_mhz; /* 0: those that kitprof uses by default */

	pid_t pid; /* 0: none was asked about */
	struct kp_target target;
	struct kp_err refused; /* code 0: pid would be profiled; else why not */
};

/* One line for each thing, "name  value", the conclusion last. */
void kp_sources_print(const struct kp_sources *sources, FILE *out);
