/*
 * Text for people. Runs in the daemon.
 */
#include "daemon/render/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

unsigned int kp_text_control(const char *text)
{
	uint8_t byte = (uint8_t)text[0], next = (uint8_t)(byte ? text[1] : 0);

	if (byte < 0x20 || byte == 0x7f)
		return 1;
	return byte == 0xc2 && next >= 0x80 && next <= 0x9f ? 2 : 0;
}

void kp_text_put(FILE *out, const char *text, unsigned int also)
{
	while (*text) {
		unsigned int bytes = kp_text_control(text);
		char c = bytes ? ' ' : *text;

		if (c == ';' && also & KP_TEXT_COLON)
			c = ':';
		if (c == '/' && also & KP_TEXT_SLASH)
			c = ':';
		if (c == ' ' && also & KP_TEXT_JOIN)
			c = '_';
		putc(c, out);
		text += bytes ? bytes : 1;
	}
}

void kp_text_blank(char *text)
{
	char *to = text;

	while (*text) {
		unsigned int bytes = kp_text_control(text);

		*to++ = bytes ? ' ' : *text;
		text += bytes ? bytes : 1;
	}
	*to = 0;
}

struct kp_text_number kp_text_number(unsigned __int128 value, uint64_t unit, unsigned int decimals)
{
	struct kp_text_number ret;
	unsigned __int128 scaled = 0;
	uint64_t scale = 1;

	for (unsigned int i = 0; i < decimals; i++)
		scale *= 10;
	if (unit)
		scaled = (value * scale + unit / 2) / unit;
	if (decimals)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 ".%0*" PRIu64,
			 (uint64_t)(scaled / scale), (int)decimals, (uint64_t)(scaled % scale));
	else
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64, (uint64_t)scaled);
	return ret;
}

struct kp_text_number kp_text_percent(uint64_t part, uint64_t whole, unsigned int decimals)
{
	return kp_text_number((unsigned __int128)part * 100, whole, decimals);
}

int kp_text_close(FILE *out, char **text, struct kp_err *err)
{
	bool lost = fflush(out) != 0 || ferror(out);

	if (fclose(out) == 0 && !lost && *text)
		return 0;
	free(*text);
	*text = NULL;
	return kp_fail_nomem(err);
}
