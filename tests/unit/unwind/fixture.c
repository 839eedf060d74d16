/*
 * A program that is compiled without tables for unwinding but with debug information: its functions
 * are described in .debug_frame alone, those of the C library's start files in .eh_frame.
 */
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

__attribute__((noinline)) static size_t on_stack(size_t size)
{
	char buffer[size + 1];

	memset(buffer, 'x', size);
	buffer[size] = 0;
	return strlen(buffer);
}

int main(int argc, char **argv)
{
	qsort(argv, (size_t)argc, sizeof(*argv), compare);
	return on_stack((size_t)argc) != (size_t)argc;
}
