/*
 * Sorts with libc's qsort(): sort TIMES NUMBERS. Compiled without frame pointers, and so is libc:
 * frames of the two take turns on the stack. Prints a checksum.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

__attribute__((noinline)) static uint64_t sort_once(uint64_t *numbers, size_t count, uint64_t x)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		numbers[i] = x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	qsort(numbers, count, sizeof(*numbers), compare);
	for (size_t i = 0; i < count; i++)
		sum = sum * 31 + numbers[i];
	return sum;
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	uint64_t *numbers = calloc(count, sizeof(*numbers)), sum = 0;

	for (int i = 0; numbers && i < times; i++)
		sum += sort_once(numbers, count, (uint64_t)i);
	free(numbers);
	printf("sum %llu\n", (unsigned long long)sum);
	return numbers ? 0 : 1;
}
