/*
 * aarch64: number in x8, arguments in x0 to x3, result in x0 (syscall(2)).
 *
 * Runs in the target's signal handler.
 */
#pragma once

static inline long kp_syscall(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
