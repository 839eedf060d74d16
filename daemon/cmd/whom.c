/* Whose processes `on --all` is about: whom.h. Client and server; both judge alike. */
#include "daemon/cmd/whom.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void name_user(struct kp_whom *ret)
{
	const struct passwd *entry = getpwuid(ret->uid);

	if (entry)
		snprintf(ret->name, sizeof(ret->name), "%s", entry->pw_name);
	else
		snprintf(ret->name, sizeof(ret->name), "%u", (unsigned)ret->uid);
}

static int find_user(const char *user, uid_t *ret, struct kp_err *err)
{
	const struct passwd *entry = getpwnam(user);
	unsigned long number;
	char *end;

	if (entry) {
		*ret = entry->pw_uid;
		return 0;
	}
	errno = 0;
	number = strtoul(user, &end, 10);
	if (user[0] < '0' || user[0] > '9' || *end || errno || number >= UINT32_MAX)
		return kp_fail(err, KP_EUSAGE, "--user %.60s: no such user", user);
	*ret = (uid_t)number;
	return 0;
}

int kp_whom_resolve(const char *user, bool everyone, uid_t server, struct kp_whom *ret,
		    struct kp_err *err)
{
	int r;

	*ret = (struct kp_whom){ .everyone = everyone, .uid = server };
	if (user && everyone)
		return kp_fail(err, KP_EUSAGE, "--user and --everyone: give one of them");
	if (everyone && server != 0)
		return kp_fail(err, KP_EUSAGE,
			       "--everyone: kitprofd runs as uid %u and profiles processes of that "
			       "user only; root's can profile everyone's",
			       (unsigned)server);
	if (server == 0 && !user && !everyone)
		return kp_fail(
			err, KP_EUSAGE,
			"--all: kitprofd runs as root; say whose processes are meant: --user "
			"NAME, or --everyone for those of all users");
	if (everyone) {
		snprintf(ret->name, sizeof(ret->name), "everyone");
		return 0;
	}
	r = user ? find_user(user, &ret->uid, err) : 0;
	if (r < 0)
		return r;
	if (server != 0 && ret->uid != server)
		return kp_fail(
			err, KP_EUSAGE,
			"--user %.60s: kitprofd runs as uid %u and profiles processes of that "
			"user only",
			user, (unsigned)server);
	name_user(ret);
	return 0;
}
