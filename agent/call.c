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

#include <stdint.h>

/* The daemon is another process, so the shared kind (no FUTEX_PRIVATE_FLAG): man futex(2). */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

static long futex(uint32_t *word, long op, uint32_t value)
{
	return kp_syscall(__NR_futex, kp_syscall_ptr(word), op, value, 0);
}

_Noreturn void kp_agent_call(void)
{
	kp_clock_mail(KP_MAIL_SLOTS);

	/* Release: pairs with the daemon's acquire; the mail is worked off. */
	__atomic_store_n(&kp_shm.call_done, 1, __ATOMIC_RELEASE);
	futex(&kp_shm.call_done, FUTEX_WAKE, INT32_MAX);
	for (;;)
		futex(&kp_shm.call_done, FUTEX_WAIT, 1);
}
