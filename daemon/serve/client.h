/* The client's side of the control socket: one request, one answer. */
#pragma once

#include "daemon/serve/message.h"

/*
 * Asks the server at path and waits for its answer, without a limit: `off` takes as long as results
 * take. *ret is to be deinited if 0 is returned; *ret_line, if not NULL, is the answer as it came,
 * to be freed. A refusal is an answer, with its error.
 */
int kp_client_ask(const char *path, const struct kp_request *request, struct kp_answer *ret,
		  char **ret_line, struct kp_err *err);
