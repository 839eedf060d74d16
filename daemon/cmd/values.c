/* Values on the command line: options.h. Pure. */
#include "daemon/cmd/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

/* A number that is not negative, then one of the units. The first unit is that of a bare number. */
static bool parse_number(const char *text, const struct unit *units, double *ret, size_t *ret_unit)
{
	char *end;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return false;
	errno = 0;
	*ret = strtod(text, &end);
	if (end == text || errno || !isfinite(*ret))
		return false;
	*ret_unit = 0;
	if (!*end)
		return true;
	for (size_t i = 0; units[i].name; i++) {
		if (strcasecmp(end, units[i].name) == 0) {
			*ret_unit = i;
			return true;
		}
	}
	return false;
}

/* Units of frequency give Hz; units of time are periods, factor in seconds below 0. */
static const struct unit rate_units[] = {
	{ "hz", 1 }, { "khz", 1000 }, { "s", -1 }, { "ms", -1e-3 }, { "us", -1e-6 }, { NULL, 0 },
};

int kp_rate_parse(const char *text, uint64_t *ret_mhz, struct kp_err *err)
{
	double number, hz;
	size_t unit;

	if (!parse_number(text, rate_units, &number, &unit) || number <= 0)
		return kp_fail(err, KP_EUSAGE,
			       "--rate %s: not a rate; give a frequency (999, 99hz, 2khz) or a "
			       "period (1ms, 500us)",
			       text);
	hz = rate_units[unit].factor > 0 ? number * rate_units[unit].factor
					 : 1 / (number * -rate_units[unit].factor);
	if (hz < 0.9999999 || hz > 10000.000001)
		return kp_fail(err, KP_EUSAGE,
			       "--rate %s: rates go from 1 Hz to 10000 Hz (1 s to 0.1 ms)", text);
	*ret_mhz = (uint64_t)(hz * 1000 + 0.5);
	return 0;
}

static const struct unit time_units[] = {
	{ "s", 1e9 }, { "ms", 1e6 }, { "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 }, { NULL, 0 },
};

int kp_duration_parse(const char *text, uint64_t *ret_ns, struct kp_err *err)
{
	double number;
	size_t unit;

	if (!parse_number(text, time_units, &number, &unit))
		return kp_fail(err, KP_EUSAGE,
			       "--duration %s: not a time; give 10, 10s, 500ms, 2m or 1h", text);
	number *= time_units[unit].factor;
	if (number < 1 || number > 1e18)
		return kp_fail(err, KP_EUSAGE, "--duration %s: out of range", text);
	*ret_ns = (uint64_t)number;
	return 0;
}

/* Real-time signals are out: the kernel sends SIGIO instead when their queue is full, which kills. */
int kp_signal_parse(const char *text, int *ret, struct kp_err *err)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	char *end;
	long number = strtol(text, &end, 10);

	if (end == text || *end) {
		number = 0;
		for (int i = 1; i < 32; i++)
			if (sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), name) == 0)
				number = i;
	}
	if (number < 1 || number > 31)
		return kp_fail(err, KP_EUSAGE,
			       "--signal %s: no such signal; give a name or number below 32", text);
	if (number == SIGKILL || number == SIGSTOP || number == SIGSEGV || number == SIGBUS ||
	    number == SIGILL || number == SIGFPE || number == SIGTRAP || number == SIGCHLD)
		return kp_fail(err, KP_EUSAGE,
			       "--signal %s: that signal cannot be used for sampling", text);
	*ret = (int)number;
	return 0;
}
