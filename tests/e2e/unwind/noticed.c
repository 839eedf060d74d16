/*
 * noticed COUNT LIBRARY...: loads and unloads libraries, one after another, and waits each time until
 * the profiler's directory in this process (proto/tables.h) has the library's code, or a second is
 * over. Prints how many microseconds that took, a line each.
 *
 * For each library once more before that, so that its table has been built.
 */
#include "proto/tables.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct kp_tables_directory *directory;
static uint64_t area_bytes;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The profiler's mapping that is read-only: the directory, and tables, which may be another file's. */
static int find_directory(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], perms[5];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:kitprof") &&
		    sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 &&
		    strcmp(perms, "r--s") == 0) {
			if (!directory)
				directory = (const void *)start;
			area_bytes = end - (uintptr_t)directory;
		}
	if (maps)
		fclose(maps);
	return directory != NULL;
}

static int wait_for(const char *library, uint64_t *ret_us)
{
	uint64_t start = now_us();
	void *handle = dlopen(library, RTLD_NOW);
	void *code = handle ? dlsym(handle, "plugin_work") : NULL;
	struct kp_tables_module found;

	if (!code)
		return 1;
	do
		*ret_us = now_us() - start;
	while (kp_tables_find(directory, area_bytes, (uintptr_t)code, &found) != 0 &&
	       *ret_us < 1000000);
	return dlclose(handle);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0, libraries = argc - 2;
	uint64_t us;

	alarm(120);
	for (int tries = 0; !find_directory() && tries < 1000; tries++)
		usleep(10000);
	if (!count || !directory)
		return 98;
	for (int i = 0; i < libraries + count; i++) {
		if (wait_for(argv[2 + i % libraries], &us))
			return 97;
		if (i >= libraries)
			printf("%lu\n", (unsigned long)us);
		usleep(30000);
	}
	return 0;
}
