/* Private to cmd/: what on, off and status have in common, the clients of kitprofd. */
#pragma once

#include "daemon/cmd/cmd.h"
#include "daemon/serve/client.h"

/*
 * Parses the command line, handles help, and takes the process id that on and off have, unless
 * --all or --session stand for it (0). *ret_pid NULL: there is none. > 0: the exit status plus 1 is
 * returned, the command is done.
 */
int kp_control_begin(enum kp_command command, int argc, char **argv, const char *usage,
		     const char *about, struct kp_options *ret, pid_t *ret_pid);

/* Where kitprofd listens. */
int kp_control_path(const struct kp_options *o, char *ret, size_t size, struct kp_err *err);

/* Asks kitprofd. 0: *answer is to be deinited. Else it is said what is wrong. */
int kp_control_ask(const struct kp_options *o, const struct kp_request *request,
		   struct kp_answer *answer, char **ret_line);

/*
 * What `on` does not take although the options table has it; checked on both sides, as it is the
 * server that writes files.
 */
int kp_control_check_on(const struct kp_options *o, struct kp_err *err);
