/*
 * The mapping that the daemon and the agent share: one memfd, mapped once in the target
 * (code R-X, tables R, the rest RW, never W+X) and once in the daemon. Tables that several targets
 * have in common are a second memfd, mapped in each of them from KP_TABLES_DIRECTORY_BYTES on, at the
 * same place: behind the directory.
 *
 *	0				agent code (struct kp_agent_header first)	R-X in the target
 *	KP_SHM_HEAD_OFFSET		struct kp_shm_head				RW
 *	KP_SHM_STACK_OFFSET		stack for kp_agent_call()			RW
 *	KP_SHM_RING_OFFSET		struct kp_ring and its cells (proto/ring.h)	RW
 *	kp_shm_head.tables_off		struct kp_tables_directory and tables (proto/tables.h)	R
 *
 * All offsets are multiples of 4096. The area for tables is large and sparse: a page of it exists
 * once the daemon has written to it. Fields marked atomic are accessed with __atomic builtins on
 * both sides. The daemon never trusts what it reads back from here.
 */
#pragma once

#include "proto/ring.h"

#include <stdint.h>

#define KP_SHM_MAGIC UINT32_C(0x4d53504b) /* "KPSM" */
#define KP_SHM_VERSION 2u
#define KP_SHM_CODE_BYTES 16384u
#define KP_SHM_HEAD_OFFSET KP_SHM_CODE_BYTES
#define KP_SHM_HEAD_BYTES 8192u
#define KP_SHM_STACK_OFFSET (KP_SHM_HEAD_OFFSET + KP_SHM_HEAD_BYTES)
#define KP_SHM_STACK_BYTES 8192u
#define KP_SHM_RING_OFFSET (KP_SHM_STACK_OFFSET + KP_SHM_STACK_BYTES)
#define KP_SHM_TABLES_BYTES (UINT64_C(128) << 20) /* of the area for tables, directory included */
#define KP_SHM_TABLES_LESS (UINT64_C(16) << 20) /* where the target has no room for so much */
#define KP_SHM_NAME "kitprof" /* of the memfd: /proc/PID/maps shows /memfd:kitprof (deleted) */

/* First bytes of the agent's image: where its entries are, as offsets from the image's start. */
struct kp_agent_header {
	uint32_t magic; /* KP_AGENT_MAGIC */
	uint32_t version;
	uint32_t handler_off; /* signal handler, SA_SIGINFO signature */
	uint32_t
		restorer_off; /* sa_restorer: rt_sigreturn; 0 where the CPU's kernel ABI has none */
	uint32_t call_off; /* kp_agent_call: works off the mail, wakes the daemon, waits */
	uint32_t pad;
};
_Static_assert(sizeof(struct kp_agent_header) == 24, "layout is written by agent/entry_<cpu>.S");
#define KP_AGENT_MAGIC UINT32_C(0x4741504b) /* "KPAG" */

/* struct sigaction as the kernel's rt_sigaction takes it (not libc's). */
struct kp_sigaction {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer; /* not present in the kernel's struct on riscv64 */
	uint64_t mask;
};

/* Neither default (0) nor ignored (1): somebody's function. */
static inline int kp_sigaction_has_handler(const struct kp_sigaction *action)
{
	return action->handler > 1;
}

/* Which timer expirations become samples. */
enum kp_timer_mode {
	KP_TIMER_ALL = 0, /* each: the timer is the only clock */
	KP_TIMER_SYSCALL = 1, /* only those in a system call: user time has its own clock */
};

enum kp_mail_op {
	KP_MAIL_ARM = 1, /* create and start a CPU timer for thread tid; ret timer_id */
	KP_MAIL_DISARM = 2, /* delete timer timer_id */
};

/*
 * Who has a slot of the mailbox. The daemon fills EMPTY slots and takes results out of DONE ones;
 * whoever is in the agent takes POSTED ones, each by a CAS, so that several can be at it at once.
 */
enum kp_mail_state {
	KP_MAIL_EMPTY = 0,
	KP_MAIL_POSTED = 1,
	KP_MAIL_TAKEN = 2,
	KP_MAIL_DONE = 3,
};

/* A request of the daemon, worked off by kp_agent_call() or by the next handler that runs. */
struct kp_mail {
	uint32_t state; /* atomic; enum kp_mail_state */
	uint32_t op; /* enum kp_mail_op */
	uint32_t pid; /* the process that shall do it: forked children share the mapping */
	uint32_t tid; /* both in the target's pid namespace */
	int32_t timer_id; /* ARM: result; DISARM: parameter */
	int32_t result; /* 0, or -errno */
	uint64_t first_ns; /* ARM: CPU time until the first expiration, random in (0, period] */
};
#define KP_MAIL_SLOTS 128u

/*
 * sigev_value of our timers: cookie in the high half, tid (target's pid ns) in the low half. The
 * cookie tells our timers and signals from the target's own.
 */
#define KP_SHM_COOKIE UINT32_C(0x6b70a5e7)

struct kp_shm_head {
	/* constant once the handler is installed */
	uint32_t magic;
	uint32_t version;
	uint32_t signal; /* the sampling signal */
	uint32_t depth; /* frames per sample at most, 1..KP_DEPTH_MAX */
	uint64_t period_ns; /* of the CPU timers */
	uint32_t
		timer_mode; /* enum kp_timer_mode; atomic: becomes KP_TIMER_ALL where events fail */
	uint32_t owner_pid; /* the daemon, in its own pid ns; for messages and cleanup */
	uint64_t owner_start; /* its start time, field 22 of /proc/PID/stat: tells pids apart */
	uint64_t base; /* address of the mapping in the target */
	uint64_t bytes; /* its size, tables included */
	uint32_t unwind; /* enum kp_unwind_mode */
	uint32_t slice_bytes; /* of the stack in a slice at most; KP_UNWIND_SLICE only */
	uint64_t tables_off; /* of the area for tables from the start of the mapping */
	uint64_t tables_bytes; /* of it; 0: none */
	struct kp_sigaction saved; /* the target's own action for the signal, to be restored */
	struct kp_sigaction ours;

	/* written by the daemon; atomic */
	_Alignas(64) uint32_t on; /* 1: take samples; 0: return at once */
	/*
	 * The daemon's heartbeat: the timer_ticks up to which timers may run. Moved up at each drain.
	 * Past it the daemon is taken for dead and each timer that fires is deleted. Events do not
	 * count: they are the daemon's and gone with it.
	 */
	uint64_t lease;
	uint32_t mail_posted; /* mails posted so far, those taken back again left out */

	/* written by the agent; atomic */
	_Alignas(64) uint32_t mail_done; /* mails worked off so far */
	uint32_t call_done; /* kp_agent_call() sets it to 1 and wakes it as a futex */
	uint64_t foreign; /* signals that were not ours: ignored */
	uint64_t timer_ticks; /* signals of our timers */
	uint64_t user_ticks; /* KP_TIMER_SYSCALL: expirations in user mode, left to the event */
	uint64_t self_disarmed; /* timers deleted because the lease ran out */

	_Alignas(64) struct kp_mail mail[KP_MAIL_SLOTS];
};
_Static_assert(sizeof(struct kp_mail) == 32, "layout is shared with the target");
_Static_assert(sizeof(struct kp_shm_head) <= KP_SHM_HEAD_BYTES, "head and mail fit their pages");

/* Where the area for tables begins, and the mapping ends if there is none; a multiple of 4096. */
static inline uint64_t kp_shm_tables_off(uint32_t cell_count, uint32_t words)
{
	return (KP_SHM_RING_OFFSET + kp_ring_bytes(cell_count, words) + 4095) & ~UINT64_C(4095);
}
