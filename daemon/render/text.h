/*
 * Names and numbers as text for people. Names come from other programs: whatever they hold, they
 * stay on their line and move no cursor. Numbers are formatted from integers, so that the same
 * profile gives the same bytes on every machine.
 */
#pragma once

#include "common/err.h"

#include <stdint.h>
#include <stdio.h>

#define KP_TEXT_COLON 1u /* ';' becomes ':' */
#define KP_TEXT_JOIN 2u /* ' ' becomes '_' */
#define KP_TEXT_SLASH 4u /* '/' becomes ':' */

/* Bytes of the control character at text: C0 and DEL, or C1 (U+0080..U+009F); 0: it is none. */
unsigned int kp_text_control(const char *text);

/* Writes valid UTF-8 text; control characters become spaces. also: KP_TEXT_... */
void kp_text_put(FILE *out, const char *text, unsigned int also);

/* Likewise in place, and nothing else: control characters become spaces. */
void kp_text_blank(char *text);

struct kp_text_number {
	char text[48];
};

/* value / unit with so many decimals (0..9), rounded half up. unit 0 gives "0" with decimals. */
struct kp_text_number kp_text_number(unsigned __int128 value, uint64_t unit, unsigned int decimals);

/* 100 * part / whole. */
struct kp_text_number kp_text_percent(uint64_t part, uint64_t whole, unsigned int decimals);

/*
 * Closes a stream of open_memstream(), whose text is *text. -KP_ENOMEM with *text freed and NULL
 * when not all that was written found room; fclose() alone does not tell.
 */
int kp_text_close(FILE *out, char **text, struct kp_err *err);
