/*
 * A library that is loaded while its program runs, and unloaded again: CPU time in in_NAME, below
 * plugin_work, some nanoseconds for each of count. FRAME bytes of stack and ROOM bytes of code in front make each of them different in
 * how it is unwound and where.
 */
#include "tests/e2e/truth/burn.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

__asm__(".text\n.skip " TEXT(ROOM) ", 0xcc\n");

__attribute__((noinline)) static void PASTE(in_, NAME)(long count)
{
	char frame[FRAME];

	__asm__ volatile("" ::"r"(frame) : "memory", "rbx", "r12");
	BURN(count);
	__asm__ volatile("" ::"r"(frame) : "memory");
}

void plugin_work(long count);
void plugin_work(long count)
{
	char frame[FRAME / 2];

	__asm__ volatile("" ::"r"(frame) : "memory", "r13");
	PASTE(in_, NAME)(count);
	__asm__ volatile("" ::"r"(frame) : "memory");
}
