/* Private to clock/: opening the perf events that are clocks, and why one cannot be opened. */
#pragma once

#include "common/err.h"
#include "daemon/clock/clock.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * A disabled event of a thread (0: the caller), which overflows each count: a descriptor, or -1 and
 * errno. It keeps the times that its counter was wanted and had, for read(2).
 */
int kp_perf_event_open(enum kp_event_kind kind, pid_t tid, uint64_t count);

/* How long its thread has been on a CPU since the event was enabled; also when it has ended. */
bool kp_perf_event_ran(int fd, uint64_t *ret_ns);

/* The failure that errno stands for. -KP_EGONE if the thread has ended, else -KP_ESYSTEM. */
int kp_perf_event_explain(enum kp_event_kind kind, pid_t tid, struct kp_err *err);

/* Whether the kernel lets this process open such an event at all; err says why not. */
int kp_perf_event_probe(enum kp_event_kind kind, struct kp_err *err);

/* kernel.perf_event_paranoid and perf_event_max_sample_rate; -1 where there is no such file. */
long kp_perf_paranoid(void);
long kp_perf_sample_rate_max(void);
