/*
 * UTF-8 as RFC 3629 has it, table 3-7 of the Unicode standard. Runs in the daemon.
 */
#include "daemon/profile/utf8.h"

#include <stdint.h>

static bool between(uint8_t byte, uint8_t low, uint8_t high)
{
	return byte >= low && byte <= high;
}

/* Length of the sequence that first starts, and what its second byte may be; 0: starts none. */
static size_t sequence(uint8_t first, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (between(first, 0xc2, 0xdf))
		return 2;
	if (between(first, 0xe0, 0xef)) {
		if (first == 0xe0)
			*low = 0xa0; /* less would be overlong */
		if (first == 0xed)
			*high = 0x9f; /* more would be a surrogate */
		return 3;
	}
	if (between(first, 0xf0, 0xf4)) {
		if (first == 0xf0)
			*low = 0x90; /* less would be overlong */
		if (first == 0xf4)
			*high = 0x8f; /* more would be above U+10FFFF */
		return 4;
	}
	return 0;
}

size_t kp_utf8_char(const char *text, size_t len)
{
	const uint8_t *at = (const uint8_t *)text;
	uint8_t low, high;
	size_t n;

	if (!len || !at[0])
		return 0;
	if (at[0] < 0x80)
		return 1;
	n = sequence(at[0], &low, &high);
	if (!n || n > len || !between(at[1], low, high))
		return 0;
	for (size_t i = 2; i < n; i++) {
		if (!between(at[i], 0x80, 0xbf))
			return 0;
	}
	return n;
}

bool kp_utf8_is_clean(const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = kp_utf8_char(text + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

size_t kp_utf8_escape(const char *text, size_t len, char *out)
{
	static const char digit[] = "0123456789abcdef";
	char *to = out;

	for (size_t i = 0, n; i < len;) {
		n = kp_utf8_char(text + i, len - i);
		for (size_t k = 0; k < n; k++)
			*to++ = text[i + k];
		i += n;
		if (!n) {
			*to++ = '\\';
			*to++ = 'x';
			*to++ = digit[(uint8_t)text[i] >> 4];
			*to++ = digit[(uint8_t)text[i] & 15];
			i++;
		}
	}
	*to = 0;
	return (size_t)(to - out);
}
