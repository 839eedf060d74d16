/*
 * levels SECONDS (of CPU time): main calls a function of level 1, that one of level 2, and so on down to a leaf; at
 * each level it is one of several, each with another kind of frame, chosen at random. So every
 * stack, whenever it is looked at, has the levels 1, 2, 3 ... in order below main and nothing
 * twice. Levels are in the names: l3_aligned.
 */
#include "tests/e2e/truth/burn.h"
#include "cpu_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

static uint64_t random_state = 88172645463325252ull;

/* xorshift64: Marsaglia 2003. */
static inline unsigned choose(unsigned n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 33) % n;
}

NOINLINE static void leaf(void)
{
	BURN(100 + choose(2000));
}

/* Nothing kept, nothing moved: the smallest frame there is. */
#define PLAIN(level, next)                                                                         \
	NOINLINE static void l##level##_plain(void)                                                \
	{                                                                                          \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

/* All registers that a callee saves are in use across the call. */
#define SAVED(level, next)                                                                         \
	NOINLINE static void l##level##_saved(void)                                                \
	{                                                                                          \
		long a = choose(9), b = choose(9), c = choose(9), d = choose(9), e = choose(9),    \
		     f = choose(9);                                                                \
                                                                                                   \
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));       \
		next();                                                                            \
		__asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");  \
	}

/* Of a size that is known at run time only: by frame pointer whatever the flags. */
#define SIZED(level, next)                                                                         \
	NOINLINE static void l##level##_sized(void)                                                \
	{                                                                                          \
		char room[1 + choose(3000)];                                                       \
                                                                                                   \
		room[0] = 1;                                                                       \
		__asm__ volatile("" ::"r"(room) : "memory");                                       \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

/* Aligned to more than the ABI gives: the stack pointer is rounded down. */
#define ALIGNED(level, next)                                                                       \
	NOINLINE static void l##level##_aligned(void)                                              \
	{                                                                                          \
		_Alignas(64) char room[256];                                                       \
                                                                                                   \
		room[0] = 1;                                                                       \
		__asm__ volatile("" ::"r"(room) : "memory");                                       \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

/* Aligned and of variable size: where arguments are found is kept in a register of its own. */
#define DRAP(level, next)                                                                          \
	NOINLINE static void l##level##_drap(int a, int b, int c, int d, int e, int f, int g,      \
					     int h)                                                \
	{                                                                                          \
		_Alignas(64) char room[256];                                                       \
		char more[1 + (a + b + c + d + e + f + g + h) % 2000];                             \
                                                                                                   \
		room[0] = more[0] = 1;                                                             \
		__asm__ volatile("" ::"r"(room), "r"(more) : "memory");                            \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

#define LARGE(level, next)                                                                         \
	NOINLINE static void l##level##_large(void)                                                \
	{                                                                                          \
		char room[100000];                                                                 \
                                                                                                   \
		room[choose(sizeof(room))] = 1;                                                    \
		__asm__ volatile("" ::"r"(room) : "memory");                                       \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

#define VARIADIC(level, next)                                                                      \
	NOINLINE static void l##level##_variadic(int n, ...)                                       \
	{                                                                                          \
		va_list args;                                                                      \
		double sum = 0;                                                                    \
                                                                                                   \
		va_start(args, n);                                                                 \
		for (int i = 0; i < n; i++)                                                        \
			sum += va_arg(args, double);                                               \
		va_end(args);                                                                      \
		__asm__ volatile("" ::"r"((long)sum) : "memory");                                  \
		next();                                                                            \
		NO_TAIL_CALL();                                                                    \
	}

/* Through code of libc's that calls back. */
#define SORTING(level, next)                                                                       \
	NOINLINE static int l##level##_compare(const void *a, const void *b)                       \
	{                                                                                          \
		next();                                                                            \
		return *(const int *)a - *(const int *)b;                                          \
	}                                                                                          \
                                                                                                   \
	NOINLINE static void sort_at_##level(void)                                                 \
	{                                                                                          \
		int two[2] = { (int)choose(9), (int)choose(9) };                                   \
                                                                                                   \
		qsort(two, 2, sizeof(*two), l##level##_compare);                                   \
		NO_TAIL_CALL();                                                                    \
	}

/* Left by a jump. */
#define JUMPING(level, next)                                                                       \
	NOINLINE static void l##level##_jumping(void)                                              \
	{                                                                                          \
		jmp_buf here;                                                                      \
                                                                                                   \
		if (setjmp(here) == 0) {                                                           \
			next();                                                                    \
			longjmp(here, 1);                                                          \
		}                                                                                  \
	}

#define LEVEL(level, next)                                                                         \
	PLAIN(level, next)                                                                         \
	SAVED(level, next)                                                                         \
	SIZED(level, next)                                                                         \
	ALIGNED(level, next)                                                                       \
	DRAP(level, next)                                                                          \
	LARGE(level, next)                                                                         \
	VARIADIC(level, next)                                                                      \
	SORTING(level, next)                                                                       \
	JUMPING(level, next)                                                                       \
	static inline __attribute__((always_inline)) void level_##level(void)                      \
	{                                                                                          \
		switch (choose(9)) {                                                               \
		case 0:                                                                            \
			l##level##_plain();                                                        \
			break;                                                                     \
		case 1:                                                                            \
			l##level##_saved();                                                        \
			break;                                                                     \
		case 2:                                                                            \
			l##level##_sized();                                                        \
			break;                                                                     \
		case 3:                                                                            \
			l##level##_aligned();                                                      \
			break;                                                                     \
		case 4:                                                                            \
			l##level##_drap(1, 2, 3, 4, 5, 6, 7, (int)choose(1000));                   \
			break;                                                                     \
		case 5:                                                                            \
			l##level##_large();                                                        \
			break;                                                                     \
		case 6:                                                                            \
			l##level##_variadic(3, 1.0, 2.0, 3.0);                                     \
			break;                                                                     \
		case 7:                                                                            \
			sort_at_##level();                                                         \
			break;                                                                     \
		default:                                                                           \
			l##level##_jumping();                                                      \
		}                                                                                  \
		NO_TAIL_CALL();                                                                    \
	}

LEVEL(6, leaf)
LEVEL(5, level_6)
LEVEL(4, level_5)
LEVEL(3, level_4)
LEVEL(2, level_3)
LEVEL(1, level_2)

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 1;

	alarm(120);
	while (!used_seconds(seconds))
		for (int i = 0; i < 1000; i++)
			level_1();
	return 0;
}
