/*
 * plugins SECONDS LIBRARY...: loads a library, works in it for 0.1 to 10 ms, and unloads it; then the
 * next, for SECONDS of CPU time. They are of similar size, so they lie at the same addresses.
 */
#include "cpu_time.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static int visit(const char *library, long count)
{
	void *handle = dlopen(library, RTLD_NOW);
	void *function = handle ? dlsym(handle, "plugin_work") : NULL;
	void (*work)(long);

	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	memcpy(&work, &function, sizeof(work));
	work(count);
	return dlclose(handle);
}

__attribute__((noinline)) static int churn(int count, char **libraries, int seconds)
{
	int failed = 0;

	for (int i = 0; !used_seconds(seconds) && !failed; i++)
		failed = visit(libraries[i % count], 30000L << i % 8);
	return failed;
}

int main(int argc, char **argv)
{
	int failed;

	alarm(120);
	failed = argc < 3 || churn(argc - 2, argv + 2, atoi(argv[1]));
	puts(failed ? "failed" : "done");
	return failed;
}
