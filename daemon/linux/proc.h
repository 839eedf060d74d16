/*
 * What /proc says of a process and its threads. Reading only; every number is a claim of the
 * moment at which it was read.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* /proc/PID/task/TID/status. Signal sets have bit (n - 1) for signal n. */
struct kp_proc_status {
	char name[64]; /* comm, control characters as /proc escapes them */
	char state; /* R S D T t Z X I */
	pid_t tgid; /* pid of the thread's process */
	pid_t ppid; /* of the process */
	pid_t tracer; /* 0: nobody traces it */
	pid_t ns_tid; /* its tid in its own (innermost) pid namespace */
	uid_t uid[4]; /* real, effective, saved, file system */
	uint32_t threads; /* in the process */
	uint32_t seccomp; /* 0 none, 1 strict, 2 filter */
	uint32_t seccomp_filters;
	uint64_t sig_pending, shared_pending, sig_blocked, sig_ignored, sig_caught;
};

static inline uint64_t kp_signal_bit(int signal)
{
	return UINT64_C(1) << (signal - 1);
}

/* tid may equal pid. -KP_EGONE when there is no such thread. */
int kp_proc_status(pid_t pid, pid_t tid, struct kp_proc_status *ret, struct kp_err *err);

/* Start time of a process in clock ticks since boot: tells a reused pid. -KP_EGONE likewise. */
int kp_proc_start_time(pid_t pid, uint64_t *ret, struct kp_err *err);

/* True for a kernel thread (PF_KTHREAD). */
int kp_proc_is_kernel_thread(pid_t pid, bool *ret, struct kp_err *err);

/* Thread ids of a process, ascending; *ret is to be freed. -KP_EGONE when it does not exist. */
int kp_proc_tasks(pid_t pid, pid_t **ret, size_t *ret_count, struct kp_err *err);

/*
 * A thread of pid that still has memory and files: pid itself, or another one where the main thread
 * has ended before the rest. /proc/TID and process_vm_readv() take it as well as a pid.
 */
pid_t kp_proc_live_thread(pid_t pid);

/* Comm of a thread, without newline; "" if it is gone. */
void kp_proc_comm(pid_t pid, pid_t tid, char *ret, size_t size);

/* Where /proc/PID/exe points, "" if that cannot be read. */
void kp_proc_exe(pid_t pid, char *ret, size_t size);

/*
 * What a thread does, from /proc/PID/task/TID/syscall. Without stopping it.
 */
enum kp_thread_place {
	KP_PLACE_RUNNING = 0, /* on a CPU or runnable: pc is not known */
	KP_PLACE_SYSCALL = 1, /* blocked in system call number nr */
	KP_PLACE_BLOCKED = 2, /* blocked, but not in a system call */
	KP_PLACE_UNKNOWN = 3, /* gone, or the kernel will not say */
};
struct kp_thread_where {
	enum kp_thread_place place;
	long nr;
	uint64_t sp, pc;
	uint64_t arg; /* SYSCALL: the first argument */
};
void kp_proc_where(pid_t pid, pid_t tid, struct kp_thread_where *ret);

/* A POSIX timer of the process, from /proc/PID/timers. */
struct kp_proc_timer {
	int id;
	int signal;
	uint64_t value; /* sigev_value */
};
/* *ret is to be freed. An error where the kernel has no such file. */
int kp_proc_timers(pid_t pid, struct kp_proc_timer **ret, size_t *ret_count, struct kp_err *err);

/*
 * CPU time of the whole process since its start, exited threads included, in ns. Returns false if
 * it is gone.
 */
bool kp_proc_cpu_ns(pid_t pid, uint64_t *ret);

/*
 * CPU time of the children that the process has waited for, and of what they had waited for, in ns,
 * to some tens of milliseconds. Returns false if it is gone.
 */
bool kp_proc_waited_cpu_ns(pid_t pid, uint64_t *ret);

/* CPU time of a thread since its birth, in ns, from schedstat. Returns false if it is gone. */
bool kp_proc_thread_cpu_ns(pid_t pid, pid_t tid, uint64_t *ret);

/*
 * What the scheduler says of a thread, from /proc/PID/task/TID/schedstat. Exact for a thread that
 * sleeps; of one that runs or waits for a CPU, what it has had since the last tick is missing.
 */
struct kp_proc_sched {
	uint64_t cpu_ns; /* it ran */
	uint64_t delay_ns; /* it could have run and waited for a CPU */
	uint64_t runs; /* times that it was given a CPU */
};
bool kp_proc_sched(pid_t pid, pid_t tid, struct kp_proc_sched *ret);

/* State of a thread, a letter as in struct kp_proc_status; 0 if it is gone. */
char kp_proc_state(pid_t pid, pid_t tid);

/* Reads a small file of /proc whole; *ret is NUL-terminated and to be freed. */
int kp_proc_read(const char *path, char **ret, size_t *ret_size, struct kp_err *err);
