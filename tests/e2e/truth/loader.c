/*
 * loader LIBRARY...: after its own start is long over, loads one library after another, works in
 * it, and unloads it.
 *
 * loader gone LIBRARY: loads it, deletes its file, and works in it until it is killed.
 *
 * loader vdso: asks for the time, again and again, for half a second.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void ask_for_time(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec <
	       500000000L);
}

static int work_in(const char *library, bool until_killed)
{
	void *handle = dlopen(library, RTLD_NOW),
	     *function = handle ? dlsym(handle, "plugin_work") : NULL;
	void (*work)(void);

	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	memcpy(&work, &function, sizeof(work));
	if (until_killed)
		unlink(library);
	do
		work();
	while (until_killed);
	return dlclose(handle);
}

int main(int argc, char **argv)
{
	int failed = 0;

	alarm(120);
	if (argc == 2 && strcmp(argv[1], "vdso") == 0) {
		ask_for_time();
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "gone") == 0)
		return work_in(argv[2], true);
	usleep(200000);
	for (int i = 1; i < argc; i++)
		failed |= work_in(argv[i], false);
	return failed;
}
