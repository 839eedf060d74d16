/* kitprof cleanup PID: remove what a killed kitprof left in a process. */
#include "daemon/cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>

#define USAGE "kitprof cleanup PID"

static int cleanup(pid_t pid, bool quiet)
{
	struct kp_err err;
	char line[128];
	bool found = false;

	if (kp_session_cleanup(pid, &found, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_ERROR;
	}
	snprintf(line, sizeof(line), "pid %d: %s", (int)pid,
		 found ? "removed what a killed kitprof had left" : "nothing of kitprof is in it");
	if (!quiet)
		kp_cmd_say("kitprof", line);
	return KP_EXIT_OK;
}

int kp_cmd_cleanup(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;
	char *end;
	long pid;

	if (kp_options_parse(KP_COMMAND_CLEANUP, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_CLEANUP, USAGE,
			   "Removes what a kitprof that was killed left in a process."))
		return KP_EXIT_OK;
	pid = options.rest[0] ? strtol(options.rest[0], &end, 10) : 0;
	if (pid <= 0 || pid > INT32_MAX || *end || options.rest[1]) {
		kp_cmd_say("kitprof", "cleanup: give one process: " USAGE);
		return KP_EXIT_USAGE;
	}
	return cleanup((pid_t)pid, options.quiet);
}
