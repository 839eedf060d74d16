/* Names of result files that nobody is there to choose. */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/*
 * "DIR/NAME-PID-20261129T183000Z", pid 0: without it; to be followed by an extension. What is not
 * harmless in a file name becomes "_" in comm; at most 64 bytes of it are used. Where there are
 * results of that name already, "-2" and so on is added. Returns ret, "" if it does not fit.
 */
const char *kp_result_name(const char *dir, const char *comm, pid_t pid, time_t when, char *ret,
			   size_t size);
