/*
 * One way to write a unit test, two ways to run it. With Criterion it is Criterion; where that is
 * not packaged (other CPUs) or cannot run (TSan), about 40 lines stand in: each test runs in a
 * fork of its own and the program ends with "N passed, N failed".
 *
 *	Test(ring, drops_newest_when_full) { cr_assert_eq(a, b); }
 *
 * Only the asserts below are used, so that both understand them.
 */
#pragma once

#ifdef KP_TEST_CRITERION

#include <criterion/criterion.h>

#else

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct kp_test {
	const char *suite, *name;
	void (*run)(void);
	struct kp_test *next;
};
static struct kp_test *kp_tests;

#define Test(s, n)                                                                                 \
	static void s##_##n(void);                                                                 \
	static struct kp_test s##_##n##_test = { #s, #n, s##_##n, NULL };                          \
	__attribute__((constructor)) static void s##_##n##_add(void)                               \
	{                                                                                          \
		s##_##n##_test.next = kp_tests;                                                    \
		kp_tests = &s##_##n##_test;                                                        \
	}                                                                                          \
	static void s##_##n(void)

#define cr_assert(cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #cond);        \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define cr_assert_not(cond, ...) cr_assert(!(cond))
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b))
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b))
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b))
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b))
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b))
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b))
#define cr_assert_null(a, ...) cr_assert((a) == NULL)
#define cr_assert_not_null(a, ...) cr_assert((a) != NULL)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp((a), (b)) == 0)
#define cr_assert_arr_eq(a, b, bytes, ...) cr_assert(memcmp((a), (b), (bytes)) == 0)

int main(void)
{
	int passed = 0, failed = 0;

	for (struct kp_test *t = kp_tests; t; t = t->next) {
		int status = -1;
		pid_t child = fork();

		if (child == 0) {
			t->run();
			_exit(0);
		}
		if (child > 0)
			waitpid(child, &status, 0);
		if (status == 0) {
			passed++;
		} else {
			failed++;
			fprintf(stderr, "FAILED %s.%s (status %#x)\n", t->suite, t->name,
				(unsigned)status);
		}
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}

#endif
