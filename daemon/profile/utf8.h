/*
 * Text of unknown origin -> valid UTF-8 without NUL. Names of threads, files and symbols are bytes
 * of any content, while pprof, JSON and terminals want UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes (1..4) of the UTF-8 character at text, of which len bytes are there; 0 where there is
 * none: a stray or cut sequence, an overlong form, a surrogate, more than U+10FFFF, or NUL.
 */
size_t kp_utf8_char(const char *text, size_t len);

bool kp_utf8_is_clean(const char *text, size_t len);

/*
 * Writes text to out with each byte that is in no character as \xNN, and a NUL behind it. out has
 * room for 4 * len + 1 bytes. Returns the length without the NUL.
 */
size_t kp_utf8_escape(const char *text, size_t len, char *out);
