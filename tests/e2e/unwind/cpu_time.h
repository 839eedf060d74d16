/* How long a program uses CPU time, however busy the machine is. */
#pragma once

#include <time.h>

/* Whether this process has used so many seconds. */
static inline int used_seconds(int seconds)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec >= seconds;
}
