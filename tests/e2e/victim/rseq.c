/*
 * Spends nearly all its time in restartable sequences and looks at the clock in them: a sequence
 * that goes on after its thread stood still for long should have been aborted. Such a gap also
 * comes from a host that takes the CPU away, which no kernel of ours sees; the test compares.
 *
 * Prints "gaps N aborts N" some times a second. Kernel Documentation: man rseq(2) of librseq,
 * linux/rseq.h; the area is the one that glibc registered. x86-64.
 */
#include "victim.h"

#include <stddef.h>

#ifdef __x86_64__

#include <sys/rseq.h>
#include <x86intrin.h>

/* Shorter than any stop, longer than an interrupt. */
#define GAP_US 100
#define ROUNDS 2000u /* of some 20 ns */

enum outcome { DONE, GAP, ABORTED };

/*
 * One sequence, from 1 to 2. The first look at the clock is inside it, so that whatever comes
 * between two looks comes inside it too.
 */
static __attribute__((noinline)) enum outcome run_sequence(struct rseq *rseq, uint64_t limit)
{
	uint64_t last, now;
	uint32_t rounds = ROUNDS;
	int outcome;

	__asm__ volatile(".pushsection .data, \"aw\"\n\t"
			 ".balign 32\n"
			 "3:\t.long 0, 0\n\t" /* version, flags */
			 ".quad 1f, 2f - 1f, 4f\n\t" /* start, length, abort */
			 ".popsection\n\t"
			 "leaq 3b(%%rip), %%rax\n\t"
			 "movq %%rax, %[cs]\n"
			 "1:\n\t"
			 "rdtsc\n\t"
			 "shlq $32, %%rdx\n\t"
			 "orq %%rdx, %%rax\n\t"
			 "movq %%rax, %[last]\n"
			 "5:\n\t"
			 "rdtsc\n\t"
			 "shlq $32, %%rdx\n\t"
			 "orq %%rdx, %%rax\n\t"
			 "movq %%rax, %[now]\n\t"
			 "subq %[last], %%rax\n\t"
			 "movq %[now], %[last]\n\t"
			 "cmpq %[limit], %%rax\n\t"
			 "ja 6f\n\t"
			 "decl %[rounds]\n\t"
			 "jnz 5b\n\t"
			 "movl %[done], %[outcome]\n\t"
			 "jmp 7f\n"
			 "6:\n\t"
			 "movl %[gap], %[outcome]\n"
			 "7:\n"
			 "2:\n\t"
			 "jmp 8f\n\t"
			 ".byte 0x0f, 0xb9, 0x3d\n\t" /* ud1: the signature's first bytes */
			 ".long %c[sig]\n"
			 "4:\n\t"
			 "movl %[aborted], %[outcome]\n"
			 "8:\n\t"
			 "movq $0, %[cs]\n\t"
			 : [outcome] "=&r"(outcome), [rounds] "+&r"(rounds), [last] "=&r"(last),
			   [now] "=&r"(now), [cs] "+m"(rseq->rseq_cs)
			 : [limit] "r"(limit), [done] "i"(DONE), [gap] "i"(GAP),
			   [aborted] "i"(ABORTED), [sig] "i"(RSEQ_SIG)
			 : "rax", "rdx", "cc", "memory");
	return (enum outcome)outcome;
}

static uint64_t ticks_per_us(void)
{
	uint64_t start_ns = victim_now_ns(), start = __rdtsc();

	while (victim_now_ns() - start_ns < 20000000)
		;
	return (__rdtsc() - start) / 20000;
}

int main(void)
{
	struct rseq *rseq = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	uint64_t limit = GAP_US * ticks_per_us(), said_ns = victim_now_ns();
	unsigned count[3] = { 0 };

	if (__rseq_size == 0) {
		puts("cannot: no rseq here");
		return 77;
	}
	victim_end_on_term();
	victim_ready();
	while (!victim_stopped) {
		for (int i = 0; i < 500; i++)
			count[run_sequence(rseq, limit)]++;
		if (victim_now_ns() - said_ns > 100000000) {
			said_ns = victim_now_ns();
			printf("gaps %u aborts %u\n", count[GAP], count[ABORTED]);
			fflush(stdout);
		}
	}
	printf("end: %u done\n", count[DONE]);
	return 0;
}

#else

int main(void)
{
	puts("cannot: written for x86-64");
	return 77;
}

#endif
