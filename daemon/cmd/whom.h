/* Private to cmd/: whose processes `on --all` is about. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct kp_whom {
	bool everyone;
	uid_t uid; /* else */
	char name[64]; /* of the user, its number if it has none, or "everyone" */
};

/*
 * user: a name or number, NULL: not said. server: whom kitprofd runs as; it profiles its own user,
 * and root says whom, lest all of a machine be touched by a word too few. -KP_EUSAGE explains.
 */
int kp_whom_resolve(const char *user, bool everyone, uid_t server, struct kp_whom *ret,
		    struct kp_err *err);
