/* kitprof record --pid PID: profile a process that runs, for a while. */
#include "daemon/cmd/cmd.h"
#include "daemon/cmd/sample.h"

#include <stdio.h>
#include <unistd.h>

#define USAGE "kitprof record [options] --pid PID"

int kp_cmd_record(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;
	char line[128];

	if (kp_options_parse(KP_COMMAND_RECORD, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_RECORD, USAGE,
			   "Profiles a process that runs already, for 10 s or what -d says."))
		return KP_EXIT_OK;
	if (options.rest[0]) {
		snprintf(line, sizeof(line), "record: unexpected argument %.60s: " USAGE,
			 options.rest[0]);
		kp_cmd_say("kitprof", line);
		return KP_EXIT_USAGE;
	}
	if (!options.pid) {
		kp_cmd_say("kitprof", "record: which process? " USAGE);
		return KP_EXIT_USAGE;
	}
	if (!options.quiet && isatty(STDERR_FILENO)) {
		snprintf(line, sizeof(line), "sampling pid %d for %.3g s; Ctrl-C ends it earlier",
			 (int)options.pid, (double)options.duration_ns / 1e9);
		kp_cmd_say("kitprof", line);
	}
	return kp_sample(&options, "kitprof", NULL, NULL);
}
