/*
 * What the agent's files know of each other. The agent is an image of a few KiB that the daemon
 * copies into the target; proto/shm.h has the mapping around it. It exports nothing; its three
 * entries are in the header that entry_<cpu>.S puts at its start.
 *
 * Runs in the target's signal handler: no libc, no TLS, no errno, no lock, no floating point or
 * vector registers, bounded loops.
 */
#pragma once

#include "proto/shm.h"
#include "proto/tables.h"

/* The image, and the shared head and ring at a fixed distance from it: agent.ld. */
extern const char kp_agent_image[]; /* start of the mapping */
extern struct kp_shm_head kp_shm;
extern struct kp_ring kp_shm_ring[]; /* one; without a length, because its cells follow it */

/* The area for tables; only if kp_shm.tables_bytes. */
static inline const struct kp_tables_directory *kp_agent_tables(void)
{
	return (const struct kp_tables_directory *)(const void *)(kp_agent_image +
								  kp_shm.tables_off);
}

/*
 * The entries. kp_agent_handler() is the action of the sampling signal (SA_SIGINFO, all signals
 * blocked); kp_agent_call() is entered by the daemon with sp at the end of the mapping's stack.
 */
struct siginfo;
void kp_agent_handler(int sig, struct siginfo *info, void *ucontext);

/*
 * What kp_agent_handler() (entry_<cpu>.S) does. Returns 0, or where to go on with the same arguments:
 * the handler that the target had before, for a signal that is not ours.
 */
uint64_t kp_agent_tick(int sig, struct siginfo *info, void *ucontext);
_Noreturn void kp_agent_call(void);

/* What a sample is of: as in struct kp_ring_record. */
struct kp_tick {
	enum kp_sample_source source;
	uint32_t origin;
	uint32_t overrun;
};

struct kp_regs;
struct kp_reader;

/* The stack that was interrupted at regs, into the ring; or one more that was dropped. */
void kp_agent_sample(const struct kp_tick *tick, void *ucontext, const struct kp_regs *regs,
		     struct kp_reader *reader);

/*
 * Works off at most max mails that are meant for this process. Never waits: a mail that another
 * thread has taken is left to it. Costs a getpid, so only where kp_mailbox_has_mail().
 */
void kp_clock_mail(uint32_t max);

/* Deletes one of our timers. Returns 0 or -errno. */
int kp_clock_delete(int32_t timer_id);
