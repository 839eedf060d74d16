/*
 * Strings from symbol tables and DWARF, made safe once and kept: each distinct string is one
 * pointer, valid UTF-8 without control bytes, for as long as the names live.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/arena.h"

#include <stdbool.h>

/* What is longer is cut and ends in "...": no compiler writes such a name. */
#define KP_NAME_MAX ((size_t)64 << 10)

struct kp_names;

/* Both strings are the same pointer where the name is not mangled. */
struct kp_name {
	const char *system; /* as in the file */
	const char *shown; /* demangled */
};

/* The strings are put into arena, which must outlive the names. */
int kp_names_create(struct kp_arena *arena, struct kp_names **ret, struct kp_err *err);
void kp_names_destroy(struct kp_names *names);

/* A string that is no name of a function (a path). */
int kp_names_text(struct kp_names *names, const char *raw, const char **ret, struct kp_err *err);

/* True if the string is as all that are kept: valid UTF-8 without control bytes. */
bool kp_names_is_clean(const char *text);

/*
 * A function's name. The version behind a symbol ("memcpy@@GLIBC_2.14") is kept in the system
 * name and left out of what is shown.
 */
int kp_names_function(struct kp_names *names, const char *raw, struct kp_name *ret,
		      struct kp_err *err);
