/*
 * Preloaded into kitprof: its libdw fails as a file might make it fail that was written to. In the
 * workers only; anywhere else nobody should call it. BAD_DWARF=crash|hang
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void *dwarf_begin_elf(void *elf, int cmd, void *group);

void *dwarf_begin_elf(void *elf, int cmd, void *group)
{
	static void *(*real)(void *, int, void *);
	const char *how = getenv("BAD_DWARF");
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (strcmp(name, "kitprof-symbols") != 0)
		abort();
	if (how && strcmp(how, "crash") == 0)
		raise(SIGSEGV);
	while (how && strcmp(how, "hang") == 0)
		pause();
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dwarf_begin_elf");
	return real(elf, cmd, group);
}
