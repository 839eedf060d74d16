/*
 * lazy: calls a function of a library that is bound at its first call, and whose place the library
 * takes two seconds of CPU time to choose. So all of it is used below the dynamic linker's trampoline,
 * which finds its frame by a register that its callees have saved.
 *
 *	main outer (ld.so: trampoline, binding) choose
 */
#include <stdio.h>

void lazy_work(void);

__attribute__((noinline)) static void outer(void)
{
	lazy_work();
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	outer();
	puts("done");
	return 0;
}
