/*
 * Unit tests of UTF-8: every form that is no character is found, and nothing else.
 */
#include "daemon/profile/utf8.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdio.h>

static size_t length(const char *text)
{
	return kp_utf8_char(text, strlen(text));
}

Test(utf8, knows_characters_of_each_length)
{
	cr_assert_eq(length("a"), 1);
	cr_assert_eq(length("\x7f"), 1);
	cr_assert_eq(length("\xc2\x80"), 2);
	cr_assert_eq(length("\xdf\xbf"), 2);
	cr_assert_eq(length("\xe0\xa0\x80"), 3);
	cr_assert_eq(length("\xed\x9f\xbf"), 3);
	cr_assert_eq(length("\xef\xbf\xbf"), 3);
	cr_assert_eq(length("\xf0\x90\x80\x80"), 4);
	cr_assert_eq(length("\xf4\x8f\xbf\xbf"), 4);
}

Test(utf8, rejects_what_is_no_character)
{
	cr_assert_eq(length("\x80"), 0); /* a stray second byte */
	cr_assert_eq(length("\xc1\xbf"), 0); /* overlong */
	cr_assert_eq(length("\xe0\x9f\xbf"), 0);
	cr_assert_eq(length("\xf0\x8f\xbf\xbf"), 0);
	cr_assert_eq(length("\xed\xa0\x80"), 0); /* a surrogate */
	cr_assert_eq(length("\xf4\x90\x80\x80"), 0); /* above U+10FFFF */
	cr_assert_eq(length("\xf5\x80\x80\x80"), 0);
	cr_assert_eq(length("\xff"), 0);
	cr_assert_eq(length("\xe2\x82"), 0); /* cut */
	cr_assert_eq(length("\xe2\x82q"), 0);
	cr_assert_eq(length("\xf0\x90\x80q"), 0);
	cr_assert_eq(kp_utf8_char("\0", 1), 0);
	cr_assert_eq(kp_utf8_char("a", 0), 0);
}

Test(utf8, encoded_code_points_are_all_known)
{
	for (uint32_t c = 1; c <= 0x10ffff; c++) {
		unsigned char text[4];
		size_t n;

		if (c < 0x80) {
			text[0] = (unsigned char)c;
			n = 1;
		} else if (c < 0x800) {
			text[0] = (unsigned char)(0xc0 | c >> 6);
			n = 2;
		} else if (c < 0x10000) {
			text[0] = (unsigned char)(0xe0 | c >> 12);
			n = 3;
		} else {
			text[0] = (unsigned char)(0xf0 | c >> 18);
			n = 4;
		}
		for (size_t i = 1; i < n; i++)
			text[i] = (unsigned char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
		if (c >= 0xd800 && c <= 0xdfff)
			n = 0;
		cr_assert_eq(kp_utf8_char((const char *)text, 4), n);
	}
}

Test(utf8, escapes_single_bytes_and_goes_on)
{
	char out[64];

	cr_assert_eq(kp_utf8_escape("a\xff\xe2\x82\xac\xe2\x82z\0", 9, out), 21);
	cr_assert_str_eq(out, "a\\xff\xe2\x82\xac\\xe2\\x82z\\x00");
	cr_assert_eq(kp_utf8_escape("", 0, out), 0);
	cr_assert_str_eq(out, "");
	cr_assert_not(kp_utf8_is_clean("a\xff", 2));
	cr_assert(kp_utf8_is_clean("\xe2\x82\xac", 3));
	cr_assert_not(kp_utf8_is_clean("a\0b", 3));
}
