/*
 * The entry that the daemon uses while it has a thread stopped: many clocks are armed for the
 * price of one stop, instead of two remote system calls each.
 *
 * Runs on the stopped thread with all signals blocked, on the stack in the mapping; the daemon
 * takes the thread out again and puts back its registers. Not a signal handler, but the same
 * rules: it may have been stopped anywhere, inside malloc as well.
 */
#include "agent/agent.h"
#include "agent/syscall.h"

#include <stddef.h>
#include <stdint.h>

/* The daemon is another process, so the shared kind (no FUTEX_PRIVATE_FLAG): man futex(2). */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

/* Patience with a handler on another thread that holds the mailbox, each time 1 ms. */
#define BUSY_TRIES 20

struct wait_time {
	int64_t s, ns;
};

static long futex(uint32_t *word, long op, uint32_t value, const struct wait_time *timeout)
{
	return kp_syscall(__NR_futex, kp_syscall_ptr(word), op, value, kp_syscall_ptr(timeout));
}

/*
 * A handler that is at the mail takes microseconds, but its thread may be off its CPU. What is
 * still left after the last try is seen by the daemon: mail_done has not reached mail_posted.
 */
static void work_off_all(void)
{
	const struct wait_time ms = { .ns = 1000000 };

	for (int i = 0; i < BUSY_TRIES; i++) {
		if (!kp_clock_mail(KP_MAIL_SLOTS))
			return;
		futex(&kp_shm.mail_busy, FUTEX_WAIT, 1, &ms);
	}
}

_Noreturn void kp_agent_call(void)
{
	work_off_all();

	/* Release: pairs with the daemon's acquire; the mail is worked off. */
	__atomic_store_n(&kp_shm.call_done, 1, __ATOMIC_RELEASE);
	futex(&kp_shm.call_done, FUTEX_WAKE, INT32_MAX, NULL);
	for (;;)
		futex(&kp_shm.call_done, FUTEX_WAIT, 1, NULL);
}
