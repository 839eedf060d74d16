/* Private to cmd/: kitprofd without --pid, and with --window. Both return an exit status. */
#pragma once

#include "daemon/cmd/cmd.h"

/* Serves the control socket until a signal comes. */
int kp_serve(const struct kp_options *options);

/* Windows of options->pid, one after another, until it ends or a signal comes. */
int kp_windows(const struct kp_options *options);

/* The directory that results go to, absolute; it has to exist and to be writable. */
int kp_serve_directory(const struct kp_options *options, char *ret, struct kp_err *err);
