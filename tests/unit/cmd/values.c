/* Unit tests of values on the command line: what is taken, as what, and what is named as wrong. */
#include "daemon/cmd/options.h"
#include "tests/support/test.h"

#include <signal.h>
#include <string.h>

static struct kp_err err;

static uint64_t rate(const char *text)
{
	uint64_t mhz = 0;

	cr_assert_eq(kp_rate_parse(text, &mhz, &err), 0, "%s", text);
	return mhz;
}

static uint64_t duration(const char *text)
{
	uint64_t ns = 0;

	cr_assert_eq(kp_duration_parse(text, &ns, &err), 0, "%s", text);
	return ns;
}

static int signal_of(const char *text)
{
	int number = 0;

	cr_assert_eq(kp_signal_parse(text, &number, &err), 0, "%s", text);
	return number;
}

Test(values, rate_is_a_frequency_or_a_period)
{
	cr_assert_eq(rate("999"), 999000);
	cr_assert_eq(rate("99hz"), 99000);
	cr_assert_eq(rate("99Hz"), 99000);
	cr_assert_eq(rate("1.5khz"), 1500000);
	cr_assert_eq(rate("1ms"), 1000000);
	cr_assert_eq(rate("250us"), 4000000);
	cr_assert_eq(rate("0.5s"), 2000);
	cr_assert_eq(rate(".5ms"), 2000000);
	cr_assert_eq(rate("3ms"), 333333);
}

Test(values, rate_goes_from_1_hz_to_10_khz)
{
	cr_assert_eq(rate("1"), 1000);
	cr_assert_eq(rate("1s"), 1000);
	cr_assert_eq(rate("10000"), 10000000);
	cr_assert_eq(rate("10khz"), 10000000);
	cr_assert_eq(rate("100us"), 10000000);
	cr_assert_lt(kp_rate_parse("0.99", NULL, &err), 0);
	cr_assert_lt(kp_rate_parse("1.01s", NULL, &err), 0);
	cr_assert_lt(kp_rate_parse("10001", NULL, &err), 0);
	cr_assert_lt(kp_rate_parse("99us", NULL, &err), 0);
	cr_assert_not_null(strstr(err.text, "--rate 99us"));
}

Test(values, what_is_no_rate_is_named)
{
	static const char *const wrong[] = {
		"",	 "x",	"-5",  "0",   "0ms", "5 hz", "5hzz",   "hz",
		"1e999", "nan", "inf", "+99", " 99", "99 ",  "1,5khz",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t mhz = 7;

		err.text[0] = 0;
		cr_assert_eq(kp_rate_parse(wrong[i], &mhz, &err), -KP_EUSAGE, "%s", wrong[i]);
		cr_assert_eq(mhz, 7);
		cr_assert_eq(strncmp(err.text, "--rate ", 7), 0);
		cr_assert_not_null(strstr(err.text, wrong[i]));
	}
}

Test(values, duration_takes_units_and_means_seconds)
{
	cr_assert_eq(duration("10"), UINT64_C(10000000000));
	cr_assert_eq(duration("10s"), UINT64_C(10000000000));
	cr_assert_eq(duration("500ms"), UINT64_C(500000000));
	cr_assert_eq(duration("2m"), UINT64_C(120000000000));
	cr_assert_eq(duration("2min"), UINT64_C(120000000000));
	cr_assert_eq(duration("1h"), UINT64_C(3600000000000));
	cr_assert_eq(duration("0.25"), UINT64_C(250000000));
	cr_assert_eq(duration("1H"), UINT64_C(3600000000000));
}

Test(values, what_is_no_duration_is_named)
{
	static const char *const wrong[] = {
		"", "0", "0s", "-1", "soon", "5x", "1e30", "nan", "ms"
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(kp_duration_parse(wrong[i], NULL, &err), -KP_EUSAGE, "%s", wrong[i]);
		cr_assert_eq(strncmp(err.text, "--duration ", 11), 0);
	}
}

Test(values, signal_is_a_name_or_a_number)
{
	cr_assert_eq(signal_of("URG"), SIGURG);
	cr_assert_eq(signal_of("SIGURG"), SIGURG);
	cr_assert_eq(signal_of("sigprof"), SIGPROF);
	cr_assert_eq(signal_of("27"), SIGPROF);
	cr_assert_eq(signal_of("31"), SIGSYS);
}

Test(values, signals_that_would_do_harm_are_refused)
{
	static const char *const wrong[] = { "KILL",
					     "STOP",
					     "SEGV",
					     "BUS",
					     "ILL",
					     "FPE",
					     "TRAP",
					     "CHLD",
					     "9",
					     "",
					     "0",
					     "-23",
					     "32",
					     "64",
					     "RTMIN",
					     "SIG",
					     "23x",
					     "4294967319",
					     "9223372036854775807" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int number = 0;

		cr_assert_eq(kp_signal_parse(wrong[i], &number, &err), -KP_EUSAGE, "%s", wrong[i]);
		cr_assert_eq(number, 0);
		cr_assert_eq(strncmp(err.text, "--signal ", 9), 0);
	}
}
