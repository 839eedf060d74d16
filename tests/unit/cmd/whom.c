/* Unit tests of whose processes `on --all` means, by whom the server runs as. */
#include "daemon/cmd/whom.h"
#include "tests/support/test.h"

#include <string.h>

static struct kp_err err;
static struct kp_whom whom;

static void wrong(const char *user, bool everyone, uid_t server, const char *message)
{
	cr_assert_eq(kp_whom_resolve(user, everyone, server, &whom, &err), -KP_EUSAGE);
	cr_assert_not_null(strstr(err.text, message), "%s", err.text);
}

static void means(const char *user, uid_t server, uid_t uid, const char *name)
{
	cr_assert_eq(kp_whom_resolve(user, false, server, &whom, &err), 0);
	cr_assert_not(whom.everyone);
	cr_assert_eq(whom.uid, uid);
	cr_assert_str_eq(whom.name, name);
}

Test(whom, root_has_to_say)
{
	wrong(NULL, false, 0, "--everyone");
	wrong("root", true, 0, "give one of them");
	cr_assert_eq(kp_whom_resolve(NULL, true, 0, &whom, &err), 0);
	cr_assert(whom.everyone);
	cr_assert_str_eq(whom.name, "everyone");
	means("root", 0, 0, "root");
	means("0", 0, 0, "root");
	means("4123456", 0, 4123456, "4123456");
}

Test(whom, others_have_their_own)
{
	means(NULL, 4123456, 4123456, "4123456");
	means("4123456", 4123456, 4123456, "4123456");
	wrong("root", false, 4123456, "of that user only");
	wrong("0", false, 4123456, "of that user only");
	wrong(NULL, true, 4123456, "of that user only");
}

Test(whom, names_that_mean_nobody_are_mistakes)
{
	wrong("no-such-user", false, 0, "no such user");
	wrong("-5", false, 0, "no such user");
	wrong("", false, 0, "no such user");
	wrong("12x", false, 0, "no such user");
	wrong("99999999999999999999", false, 0, "no such user");
	wrong("4294967295", false, 0, "no such user"); /* (uid_t)-1 */
}
