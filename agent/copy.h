/*
 * Copies words without libc. x86-64 has an instruction for it that its microcode does by cache
 * lines, which registers of 8 bytes cannot, and others are not for us.
 *
 * Runs in the target's signal handler.
 */
#pragma once

#include <stdint.h>

/* count words from address from on, which is readable, to to; both 8-aligned, apart. */
#if defined(__x86_64__)
static inline void kp_copy_words(uint64_t *to, uint64_t from, uint64_t count)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}
#else
static inline void kp_copy_words(uint64_t *to, uint64_t from, uint64_t count)
{
	const volatile uint64_t *words = (const volatile uint64_t *)(uintptr_t)from;

	for (uint64_t i = 0; i < count; i++)
		to[i] = words[i];
}
#endif
