/*
 * Clocks in the target: the daemon posts requests in the shared mailbox, and whoever is in the
 * agent next makes or deletes the timers for it. A timer counts the CPU time of one thread and
 * signals that thread; any thread of the process may create it (timer_create(2), SIGEV_THREAD_ID).
 *
 * Runs in the target's signal handler, or in kp_agent_call().
 */
#include "agent/agent.h"
#include "agent/syscall.h"
#include "proto/mailbox.h"

#include <stdint.h>

/* A thread's CPU clock as clockid_t: Linux, include/linux/posix-timers_types.h. */
#define CPUCLOCK_SCHED 2
#define CPUCLOCK_PERTHREAD 4

/* struct sigevent as the kernel takes it: 64 bytes, man sigevent(3type). */
struct event {
	uint64_t value;
	int32_t signal;
	int32_t notify;
	int32_t tid;
	int32_t pad[11]; /* the kernel does not look at it */
};
_Static_assert(sizeof(struct event) == 64, "layout is the kernel's");
#define NOTIFY_THREAD_ID 4 /* SIGEV_THREAD_ID */

/* struct __kernel_itimerspec: the interval, then the first expiration. */
struct itimer {
	int64_t period_s, period_ns;
	int64_t first_s, first_ns;
};

#define NS_PER_S UINT64_C(1000000000)

static long thread_clock(uint32_t tid)
{
	return (int32_t)(~tid << 3 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED);
}

static int create(uint32_t tid, int32_t *ret)
{
	struct event event;

	/* One by one: an initializer would zero the pad as well, which GCC calls memset for. */
	event.value = (uint64_t)KP_SHM_COOKIE << 32 | tid;
	event.signal = (int32_t)kp_shm.signal;
	event.notify = NOTIFY_THREAD_ID;
	event.tid = (int32_t)tid;
	return (int)kp_syscall(__NR_timer_create, thread_clock(tid), kp_syscall_ptr(&event),
			       kp_syscall_ptr(ret), 0);
}

static int start(int32_t timer_id, uint64_t first_ns)
{
	struct itimer spec = {
		.period_s = (int64_t)(kp_shm.period_ns / NS_PER_S),
		.period_ns = (int64_t)(kp_shm.period_ns % NS_PER_S),
		.first_s = (int64_t)(first_ns / NS_PER_S),
		.first_ns = (int64_t)(first_ns % NS_PER_S),
	};

	return (int)kp_syscall(__NR_timer_settime, timer_id, 0, kp_syscall_ptr(&spec), 0);
}

int kp_clock_delete(int32_t timer_id)
{
	return (int)kp_syscall(__NR_timer_delete, timer_id, 0, 0, 0);
}

static int arm(uint32_t tid, uint64_t first_ns, int32_t *ret)
{
	int r;

	r = create(tid, ret);
	if (r < 0)
		return r;
	r = start(*ret, first_ns);
	if (r < 0)
		kp_clock_delete(*ret);
	return r;
}

static void work_off(struct kp_mail *mail)
{
	switch (mail->op) {
	case KP_MAIL_ARM:
		mail->result = arm(mail->tid, mail->first_ns, &mail->timer_id);
		break;
	case KP_MAIL_DISARM:
		mail->result = kp_clock_delete(mail->timer_id);
		break;
	default:
		mail->result = -22; /* EINVAL */
	}
}

void kp_clock_mail(uint32_t max)
{
	uint32_t pid = (uint32_t)kp_syscall(__NR_getpid, 0, 0, 0, 0), slot = 0;

	while (max--) {
		slot = kp_mailbox_take(&kp_shm, slot, pid);
		if (slot == KP_MAILBOX_NONE)
			return;
		work_off(&kp_shm.mail[slot]);
		kp_mailbox_done(&kp_shm, slot);
	}
}
