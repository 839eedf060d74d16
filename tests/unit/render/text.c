/*
 * Unit tests of text for people: names stay on their line, numbers are rounded right.
 */
#include "daemon/render/text.h"
#include "tests/support/test.h"

#include <stdlib.h>

static const char *put(const char *text, unsigned int also)
{
	static char buffer[256];
	FILE *out = fmemopen(buffer, sizeof(buffer), "w");

	buffer[0] = 0; /* nothing is written at all for an empty text */
	kp_text_put(out, text, also);
	fclose(out);
	return buffer;
}

Test(text, turns_control_characters_into_spaces)
{
	cr_assert_str_eq(put("a\nb\tc\rd\x1b[31m\x7f", 0), "a b c d [31m ");
	cr_assert_str_eq(put("a\xc2\x9b"
			     "b",
			     0),
			 "a b"); /* CSI in one character */
	cr_assert_str_eq(put("\xc2\xa0\xe2\x82\xac", 0), "\xc2\xa0\xe2\x82\xac");
	cr_assert_str_eq(put("", 0), "");
}

Test(text, bends_separators_where_asked)
{
	cr_assert_str_eq(put("a;b c", 0), "a;b c");
	cr_assert_str_eq(put("a;b c", KP_TEXT_COLON), "a:b c");
	cr_assert_str_eq(put("a;b c\t", KP_TEXT_COLON | KP_TEXT_JOIN), "a:b_c_");
	cr_assert_str_eq(put("a/b;c", KP_TEXT_SLASH), "a:b;c");
}

Test(text, is_blanked_in_place)
{
	char text[] = "a\n\x1b[2J\xc2\x9b\xc2\xa0\x7f";

	kp_text_blank(text);
	cr_assert_str_eq(text, "a  [2J \xc2\xa0 ");
}

Test(text, rounds_half_up)
{
	cr_assert_str_eq(kp_text_number(1499, 1000, 0).text, "1");
	cr_assert_str_eq(kp_text_number(1500, 1000, 0).text, "2");
	cr_assert_str_eq(kp_text_number(1005, 1000, 2).text, "1.01");
	cr_assert_str_eq(kp_text_number(1004, 1000, 2).text, "1.00");
	cr_assert_str_eq(kp_text_number(999999, 1000000, 3).text, "1.000");
	cr_assert_str_eq(kp_text_number(50, 1000, 2).text, "0.05");
	cr_assert_str_eq(kp_text_number(7, 0, 1).text, "0.0");
}

Test(text, takes_the_largest_numbers)
{
	cr_assert_str_eq(kp_text_percent(UINT64_MAX, UINT64_MAX, 2).text, "100.00");
	cr_assert_str_eq(kp_text_percent(1, 3, 2).text, "33.33");
	cr_assert_str_eq(kp_text_percent(2, 3, 2).text, "66.67");
	cr_assert_str_eq(kp_text_percent(0, 0, 1).text, "0.0");
	cr_assert_str_eq(kp_text_number(UINT64_MAX, 1, 0).text, "18446744073709551615");
}

/* What open_memstream() leaves when there is no memory: lost text, or none at all. */
Test(text, closing_tells_of_text_that_was_lost)
{
	struct kp_err err;
	char small[4], *text = malloc(1);
	FILE *out = fmemopen(small, sizeof(small), "w");

	fputs("longer than that", out);
	cr_assert_eq(kp_text_close(out, &text, &err), -KP_ENOMEM);
	cr_assert_null(text);
	out = fopen("/dev/null", "w");
	cr_assert_eq(kp_text_close(out, &text, &err), -KP_ENOMEM);
}

Test(text, closing_keeps_text_that_is_whole)
{
	struct kp_err err;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs("whole", out);
	cr_assert_eq(kp_text_close(out, &text, &err), 0);
	cr_assert_str_eq(text, "whole");
	free(text);
}
