/*
 * A process that is to be profiled, as far as it can be known without touching it; and the reasons
 * to leave it alone.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_target {
	pid_t pid;
	pid_t ns_pid; /* in its own pid namespace */
	uint64_t start_time; /* clock ticks since boot */
	uint16_t elf_machine;
	int signal; /* that sampling will use */
	bool seccomp; /* some thread has a filter */
	/*
	 * The program's own handler for the signal, if it has or gets one, may stand behind ours (Go's):
	 * what is not from our clocks is passed on to it.
	 */
	bool shares_signal;
	uint64_t leftover_base, leftover_end; /* mapping of a dead kitprof, or 0 */
	bool leftover_is_ours; /* of this process: inherited from a parent that nobody knows */
	char comm[64];
	char exe[4096];
};

/*
 * Looks at pid. signal: to be used for sampling; 0 chooses (docs/decisions/0003-signal.md).
 * -KP_EGONE no such process; -KP_EREFUSED with the reason and the remedy: not permitted (uid,
 * Yama, container, another tracer), a kernel thread, a 32-bit program, a signal that the target
 * uses itself (unless it is Go's), already profiled. -KP_EBUSY: it is frozen.
 */
int kp_target_check(pid_t pid, int signal, struct kp_target *ret, struct kp_err *err);

/*
 * Whether the process runs with other rights than whoever started it gave it: a set-uid, set-gid or
 * file-capability program, or one whose real and effective user differ.
 */
bool kp_target_is_privileged(pid_t pid);

/* The parts of it for a program that has just been exec'd. */
int kp_target_check_exec(pid_t pid, int signal, struct kp_target *ret, struct kp_err *err);

/* e_machine of the targets that this build profiles. */
uint16_t kp_target_machine(void);

/* "SIGURG" for a number; "signal 40" for a real-time one. Static storage per call. */
const char *kp_signal_name(int signal);
