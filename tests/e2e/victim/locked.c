/*
 * locked: keeps all its memory locked, what it maps later too, and uses CPU. It says how much is
 * locked when it ends: that may not have grown.
 */
#include "victim.h"

#include <sys/mman.h>

/* kB, from /proc/self/status. */
static long locked_kb(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long kb = -1;

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmLck: %ld", &kb) == 1)
			break;
	if (status)
		fclose(status);
	return kb;
}

int main(void)
{
	unsigned x = 0;
	long before;

	victim_end_on_term();
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		victim_give_up("mlockall");
	locked_kb(); /* what stdio needs is there from here on */
	before = locked_kb();
	victim_ready();
	while (!victim_stopped)
		x = victim_spin(x);
	printf("end: %u\n", x);
	fflush(stdout);
	if (locked_kb() > before)
		printf("bad: %ld kB are locked, %ld were\n", locked_kb(), before);
	return locked_kb() > before;
}
