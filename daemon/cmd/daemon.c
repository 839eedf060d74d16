/* kitprofd --pid PID: stay with a service until told to stop. */
#include "daemon/cmd/cmd.h"
#include "daemon/cmd/sample.h"

#include <stdio.h>

#define USAGE "kitprofd [options] --pid PID"

int kp_cmd_daemon(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;
	char line[128];

	if (kp_options_parse(KP_COMMAND_DAEMON, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprofd", err.text);
		return KP_EXIT_USAGE;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_DAEMON, USAGE,
			   "Profiles a process until SIGINT or SIGTERM, then writes the reports."))
		return KP_EXIT_OK;
	if (options.rest[0] || !options.pid) {
		snprintf(line, sizeof(line), "%s%.60s: " USAGE,
			 options.rest[0] ? "unexpected argument " : "which process?",
			 options.rest[0] ? options.rest[0] : "");
		kp_cmd_say("kitprofd", line);
		return KP_EXIT_USAGE;
	}
	if (!options.quiet) {
		snprintf(line, sizeof(line), "sampling pid %d; SIGINT or SIGTERM ends it", (int)options.pid);
		kp_cmd_say("kitprofd", line);
	}
	return kp_sample(&options, "kitprofd", NULL);
}
