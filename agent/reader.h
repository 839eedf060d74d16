/*
 * Reads words of the target's memory that may not be there.
 *
 * Runs in the target's signal handler, with all signals blocked.
 */
#pragma once

#include "agent/syscall.h"

#include <stddef.h>
#include <stdint.h>

/* The smallest page of our CPUs; where pages are larger, one more is probed than needed. */
#define KP_READER_PAGE UINT64_C(4096)

/* Zeroed: nothing is known to be readable. */
struct kp_reader {
	uint64_t page[2]; /* that were probed last and are readable, the latest first; 0: none */
};

/*
 * The kernel reads the word for us as a set of signals to block: EFAULT where it is not readable,
 * and no effect where it is, because all signals are blocked already (sa_mask). Measured as the
 * cheapest of the ways without side effects; handling SIGSEGV is not one of them in a process
 * that may use SIGSEGV itself. How: SIG_BLOCK is 0 on our CPUs; 8 is the kernel's sigsetsize.
 */
static inline int kp_reader_probe(uint64_t addr)
{
	return kp_syscall(__NR_rt_sigprocmask, 0, (long)addr, 0, 8) == 0;
}

/* Whether there is memory at addr. Two pages are remembered: a stack's, and that of some code. */
static inline int kp_reader_has(struct kp_reader *reader, uint64_t addr)
{
	uint64_t page = addr & ~(KP_READER_PAGE - 1);

	if (!page)
		return 0;
	if (page == reader->page[0] || page == reader->page[1])
		return 1;
	if (!kp_reader_probe(addr & ~UINT64_C(7)))
		return 0;
	reader->page[1] = reader->page[0];
	reader->page[0] = page;
	return 1;
}

/* A kp_read_word_fn; ctx is a struct kp_reader. */
static inline int kp_reader_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	if (addr % sizeof(uint64_t) || !kp_reader_has(ctx, addr))
		return -1;
	*ret = *(const volatile uint64_t *)(uintptr_t)addr;
	return 0;
}
