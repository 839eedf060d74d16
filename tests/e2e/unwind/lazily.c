/* The library of lazy.c. */
#include "cpu_time.h"

void lazy_work(void);

static void work(void)
{
}

/* Relocation of this library is over by then, so it may call others. */
static void (*choose(void))(void)
{
	while (!used_seconds(2))
		;
	return work;
}

void lazy_work(void) __attribute__((ifunc("choose")));
