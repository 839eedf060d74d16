/*
 * riscv64: number in a7, arguments in a0 to a3, result in a0 (syscall(2)).
 *
 * Runs in the target's signal handler.
 */
#pragma once

static inline long kp_syscall(long nr, long a, long b, long c, long d)
{
	register long a7 __asm__("a7") = nr;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3) : "memory");
	return a0;
}
