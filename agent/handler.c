/*
 * The signal handler: which signals are samples. What is in one is sample.c's. It prints nothing,
 * and waits for nobody.
 *
 * Runs in the target's signal handler: on any thread, at any instruction, with all signals
 * blocked, on the alternate stack where there is one (some are small: keep frames small).
 */
#include "agent/agent.h"
#include "agent/capture.h"
#include "agent/reader.h"
#include "agent/syscall.h"
#include "proto/mailbox.h"

#include <linux/signal.h>

#include <stdint.h>

/* Mails that one signal works off at most: some 30 us. */
#define MAILS_PER_SIGNAL 8

/* origin of a sample whose siginfo was lost; no fd and no tid has this number. */
#define ORIGIN_UNKNOWN UINT32_MAX

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Whether user time has events of its own. */
static int has_events(void)
{
	return __atomic_load_n(&kp_shm.timer_mode, __ATOMIC_RELAXED) == KP_TIMER_SYSCALL;
}

/*
 * Who sent the signal, by siginfo (sigaction(2), fcntl(2) F_SETSIG). Returns 0 if not we.
 *
 * A signal without siginfo (SI_USER from pid 0) is one of ours only where there are events: an
 * event's siginfo is allocated when it fires, and when that fails the bare signal is still sent.
 * A POSIX timer's is allocated with the timer and never lost. With timers alone such a signal is
 * somebody's kill() from outside our pid namespace.
 */
static int identify(const siginfo_t *info, struct kp_tick *ret)
{
	ret->overrun = 0;
	switch (info->si_code) {
	case SI_TIMER:
		if ((uint64_t)(uintptr_t)info->si_ptr >> 32 != KP_SHM_COOKIE)
			return 0;
		ret->source = KP_SOURCE_TIMER;
		ret->origin = (uint32_t)(uintptr_t)info->si_ptr;
		ret->overrun = (uint32_t)info->si_overrun;
		return 1;
	case POLL_IN:
		/* Where timers are the clock, an event only wakes the handler to look for mail. */
		ret->source = KP_SOURCE_EVENT;
		ret->origin = (uint32_t)info->si_fd;
		return has_events();
	case SI_USER:
		ret->source = KP_SOURCE_EVENT;
		ret->origin = ORIGIN_UNKNOWN;
		return !info->si_pid && has_events();
	default:
		return 0;
	}
}

/*
 * Sampling is over: a timer that still fires deletes itself, should the daemon have died before it
 * came to that. Kernel ids of timers are handed out in a circle, so the daemon's own deletion of
 * the same id a moment later meets no timer of the target's. Returns 0 if it is not one of ours.
 */
static int disarm_self(const siginfo_t *info)
{
	if (info->si_code != SI_TIMER || (uint64_t)(uintptr_t)info->si_ptr >> 32 != KP_SHM_COOKIE)
		return 0;
	kp_clock_delete(info->si_tid);
	return 1;
}

/*
 * The daemon moves the lease ahead whenever it drains. A timer that fires beyond it has outlived
 * the daemon and deletes itself; an event lives in the daemon and is gone with it.
 */
static int lease_is_over(const siginfo_t *info)
{
	uint64_t lease = __atomic_load_n(&kp_shm.lease, __ATOMIC_RELAXED);

	if (__atomic_fetch_add(&kp_shm.timer_ticks, 1, __ATOMIC_RELAXED) <= lease)
		return 0;
	if (kp_clock_delete(info->si_tid) == 0)
		count(&kp_shm.self_disarmed);
	return 1;
}

/*
 * Whether pc directly follows a system call instruction: the tick fell into the kernel, or on its
 * way out with interrupts off, where an event that counts user time only fires as well. So where
 * there are both clocks, what is here is the timer's alone and all else the event's alone; by the
 * mode that the clocks count in, the way out would be there twice. Read byte by byte out of whole
 * words, since the instruction may lie across words and pages.
 */
static int follows_syscall(const struct kp_arch *arch, uint64_t pc, struct kp_reader *reader)
{
	for (uint32_t i = 0; i < arch->syscall_size; i++) {
		uint64_t addr = pc - arch->syscall_size + i;
		uint64_t word;

		if (kp_reader_word(reader, addr & ~UINT64_C(7), &word))
			return 0;
		if ((uint8_t)(word >> addr % 8 * 8) != arch->syscall_bytes[i])
			return 0;
	}
	return 1;
}

/*
 * A signal that is not ours: the target's own handler takes it where there is one (Go's), and
 * returns as if we had not been there: past our code, which may be unmapped by then.
 */
static uint64_t pass_on(const siginfo_t *info, void *ucontext)
{
	uint64_t handler = kp_shm.saved.handler;

	/* An event that only wakes the handler is ours all the same. */
	if (info->si_code == POLL_IN || !kp_sigaction_has_handler(&kp_shm.saved))
		return 0;
	kp_capture_return_through(ucontext, kp_shm.saved.restorer);
	return handler;
}

uint64_t kp_agent_tick(int sig, struct siginfo *info, void *ucontext)
{
	const struct kp_arch *arch = kp_capture_arch();
	struct kp_reader reader = { 0 };
	struct kp_regs regs;
	struct kp_tick tick;

	(void)sig;
	/* Acquire: pairs with the daemon's release of on; the head and the ring are made. */
	if (!__atomic_load_n(&kp_shm.on, __ATOMIC_ACQUIRE))
		return disarm_self(info) ? 0 : pass_on(info, ucontext);
	if (kp_mailbox_has_mail(&kp_shm))
		kp_clock_mail(MAILS_PER_SIGNAL);
	if (!identify(info, &tick)) {
		count(&kp_shm.foreign);
		return pass_on(info, ucontext);
	}
	if (tick.source == KP_SOURCE_TIMER && lease_is_over(info))
		return 0;

	kp_capture_regs(ucontext, &regs);
	if (has_events() &&
	    follows_syscall(arch, regs.pc, &reader) != (tick.source == KP_SOURCE_TIMER)) {
		count(&kp_shm.user_ticks);
		return 0;
	}
	kp_agent_sample(&tick, ucontext, &regs, &reader);
	return 0;
}
