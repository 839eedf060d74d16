/*
 * Private to session/: processes that had ended before they could be looked at. The kernel's word of
 * their birth, name and time is all that is known of them; it goes to the raw file. Session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/session/tally.h"
#include "daemon/watch/task_events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_passed_process {
	pid_t pid;
	char comm[16];
	bool named; /* PROCESS has been written */
};

struct kp_passed {
	struct kp_passed_process *process;
	size_t count, room;
};

void kp_passed_deinit(struct kp_passed *passed);

/* One was born and is gone. comm: its parent's. */
int kp_passed_add(struct kp_passed *passed, pid_t pid, const char *comm, struct kp_err *err);

/*
 * An event of a process that is in no other list. *ret_cpu_ns is set where it says how long a thread
 * ran, else 0.
 */
int kp_passed_event(struct kp_passed *passed, const struct kp_tally_book *book,
		    const struct kp_task_event *event, uint64_t *ret_cpu_ns, struct kp_err *err);

/* PROCESS and THREAD records of a process's only thread. parent: whose modules it has, or 0. */
int kp_name_process(struct kp_raw_writer *writer, pid_t pid, pid_t parent, const char *comm,
		    struct kp_err *err);
