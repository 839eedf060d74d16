/*
 * x86-64: number in rax, arguments in rdi rsi rdx r10; rcx and r11 are lost (syscall(2)).
 *
 * Runs in the target's signal handler.
 */
#pragma once

static inline long kp_syscall(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
