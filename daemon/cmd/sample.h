/* Private to cmd/: a session and its results, as run, record and kitprofd have them in common. */
#pragma once

#include "daemon/cmd/cmd.h"

/*
 * One session as the options say, then the reports. argv: the program to run, NULL to attach to
 * options->pid. Errors are said. Returns an exit status: of the program (run), or one of ours.
 */
int kp_sample(const struct kp_options *options, const char *program, char *const *argv);
