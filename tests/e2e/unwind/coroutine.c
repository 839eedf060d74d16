/*
 * coroutine SECONDS: uses CPU time on a stack of its own making: a ucontext (musl has none).
 * The chain is (root) coroutine in_coroutine; main is on another stack.
 */
#include "tests/e2e/truth/burn.h"
#include "cpu_time.h"

#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t home, away;

__attribute__((noinline)) static void in_coroutine(void)
{
	BURN(200000);
}

static void coroutine(void)
{
	for (;;) {
		in_coroutine();
		swapcontext(&away, &home);
	}
}

int main(int argc, char **argv)
{
	static char stack[65536];
	int seconds = argc > 1 ? atoi(argv[1]) : 1;

	alarm(120);
	getcontext(&away);
	away.uc_stack.ss_sp = stack;
	away.uc_stack.ss_size = sizeof(stack);
	makecontext(&away, coroutine, 0);
	while (!used_seconds(seconds))
		swapcontext(&home, &away);
	return 0;
}
