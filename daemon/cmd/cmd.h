/* The commands: each takes its own words (argv[0] is its name) and returns an exit status. */
#pragma once

#include "daemon/cmd/options.h"
#include "daemon/session/session.h"

int kp_cmd_run(int argc, char **argv);
int kp_cmd_record(int argc, char **argv);
int kp_cmd_report(int argc, char **argv);
int kp_cmd_cleanup(int argc, char **argv);
int kp_cmd_sources(int argc, char **argv);
int kp_cmd_on(int argc, char **argv);
int kp_cmd_off(int argc, char **argv);
int kp_cmd_status(int argc, char **argv);
int kp_cmd_daemon(int argc, char **argv); /* kitprofd */

/* Exit statuses of kitprof itself. */
enum {
	KP_EXIT_OK = 0,
	KP_EXIT_ERROR = 1,
	KP_EXIT_USAGE = 2,
	KP_EXIT_NOTHING = 3, /* record: no sample was taken */
	KP_EXIT_RUN_FAILED = 125,
	KP_EXIT_NOT_EXECUTABLE = 126,
	KP_EXIT_NOT_FOUND = 127,
};

/* "kitprof: " or "kitprofd: " and a line on stderr. */
void kp_cmd_say(const char *program, const char *line);

/*
 * Handles -h and -V: true if the command is done. usage: the line behind "Usage: ".
 */
bool kp_cmd_is_help(const struct kp_options *o, enum kp_command command, const char *usage,
		    const char *about);
