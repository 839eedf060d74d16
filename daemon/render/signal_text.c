/*
 * Names of signals. Runs in the daemon.
 */
#include "daemon/render/signal_text.h"

#include <stdio.h>

static const char *const names[] = {
	[1] = "HUP",	 [2] = "INT",	[3] = "QUIT",	[4] = "ILL",   [5] = "TRAP",
	[6] = "ABRT",	 [7] = "BUS",	[8] = "FPE",	[9] = "KILL",  [10] = "USR1",
	[11] = "SEGV",	 [12] = "USR2", [13] = "PIPE",	[14] = "ALRM", [15] = "TERM",
	[16] = "STKFLT", [17] = "CHLD", [18] = "CONT",	[19] = "STOP", [20] = "TSTP",
	[21] = "TTIN",	 [22] = "TTOU", [23] = "URG",	[24] = "XCPU", [25] = "XFSZ",
	[26] = "VTALRM", [27] = "PROF", [28] = "WINCH", [29] = "IO",   [30] = "PWR",
	[31] = "SYS",
};

struct kp_signal_text kp_signal_text(uint32_t number)
{
	struct kp_signal_text ret;

	if (number > 0 && number < sizeof(names) / sizeof(*names))
		snprintf(ret.text, sizeof(ret.text), "SIG%s", names[number]);
	else if (number >= 34 && number <= 64)
		snprintf(ret.text, sizeof(ret.text), "SIGRTMIN+%u", number - 34);
	else
		snprintf(ret.text, sizeof(ret.text), "signal %u", number);
	return ret;
}
