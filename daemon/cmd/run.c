/* kitprof run [options] -- PROGRAM [ARGS]: start a program and profile it to its end. */
#include "daemon/cmd/cmd.h"
#include "daemon/cmd/sample.h"

#define USAGE "kitprof run [options] -- PROGRAM [ARGS]"

int kp_cmd_run(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;

	if (kp_options_parse(KP_COMMAND_RUN, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_RUN_FAILED;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_RUN, USAGE,
			   "Starts a program, profiles it to its end, and exits with its status."))
		return KP_EXIT_OK;
	if (!options.rest[0]) {
		kp_cmd_say("kitprof", "run: no program given: " USAGE);
		return KP_EXIT_RUN_FAILED;
	}
	return kp_sample(&options, "kitprof", options.rest, NULL);
}
