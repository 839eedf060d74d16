/* A library that is loaded while its program runs: CPU time in a function of the name NAME. */
#include "burn.h"

__attribute__((noinline)) static void NAME(void)
{
	volatile char frame = 0;

	(void)frame;
	BURN(400000000L);
}

void plugin_work(void);
void plugin_work(void)
{
	NAME();
}
