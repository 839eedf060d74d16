/* The error value: see err.h. Any process, any thread; no state. */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void say(struct kp_err *err, enum kp_err_code code,
						      const char *fmt, va_list args)
{
	if (!err)
		return;
	err->code = code;
	vsnprintf(err->text, sizeof(err->text), fmt, args);
}

int kp_fail(struct kp_err *err, enum kp_err_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(err, code, fmt, args);
	va_end(args);
	return -(int)code;
}

int kp_fail_errno(struct kp_err *err, const char *fmt, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, fmt);
	say(err, KP_ESYSTEM, fmt, args);
	va_end(args);
	if (err) {
		size_t n = strlen(err->text);

		snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(saved));
	}
	errno = saved;
	return -KP_ESYSTEM;
}

int kp_fail_nomem(struct kp_err *err)
{
	return kp_fail(err, KP_ENOMEM, "out of memory");
}
