/* kitprofd: serve a socket; with --pid stay with one process until told to stop. */
#include "daemon/cmd/cmd.h"
#include "daemon/cmd/sample.h"
#include "daemon/cmd/serve.h"

#include <stdio.h>

#define USAGE "kitprofd [options] [--pid PID]"
#define ABOUT                                                                                      \
	"Without --pid: waits for `kitprof on PID`, `kitprof off PID` and `kitprof status`; "      \
	"takes\n"                                                                                  \
	"--socket, --dir and what every command takes. Each `on` names one process, there is no\n" \
	"--all. With --pid: profiles that process until SIGINT or SIGTERM, then writes the "       \
	"reports."

/* Options that would do nothing where they are given are mistakes. */
static int check(const struct kp_options *o, struct kp_err *err)
{
	if (o->rest[0])
		return kp_fail(err, KP_EUSAGE, "unexpected argument %.60s: " USAGE, o->rest[0]);
	if (!o->pid)
		return 0;
	if (o->socket)
		return kp_fail(err, KP_EUSAGE, "--socket: there is none with --pid");
	if (o->window_ns)
		return 0;
	if (o->keep)
		return kp_fail(err, KP_EUSAGE, "--keep is about windows: give --window too");
	if (o->dir)
		return kp_fail(err, KP_EUSAGE,
			       "--dir: with --pid alone -o says where the results go");
	return 0;
}

static int parse(int argc, char **argv, struct kp_options *ret, struct kp_err *err)
{
	int r = kp_options_parse(KP_COMMAND_DAEMON, argc, argv, ret, err);

	if (r == 0 && !ret->pid && !ret->help && !ret->version)
		r = kp_options_parse(KP_COMMAND_SERVE, argc, argv, ret, err);
	return r;
}

static int stay(const struct kp_options *options)
{
	char line[128];

	if (!options->quiet) {
		snprintf(line, sizeof(line), "sampling pid %d; SIGINT or SIGTERM ends it",
			 (int)options->pid);
		kp_cmd_say("kitprofd", line);
	}
	return options->window_ns ? kp_windows(options)
				  : kp_sample(options, "kitprofd", NULL, NULL);
}

int kp_cmd_daemon(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;
	int r = parse(argc, argv, &options, &err);

	if (r == 0) {
		if (kp_cmd_is_help(&options, KP_COMMAND_DAEMON, USAGE, ABOUT))
			return KP_EXIT_OK;
		r = check(&options, &err);
	}
	if (r < 0) {
		kp_cmd_say("kitprofd", err.text);
		return KP_EXIT_USAGE;
	}
	return options.pid ? stay(&options) : kp_serve(&options);
}
