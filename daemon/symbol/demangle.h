/*
 * Mangled names -> what the programmer wrote: C++ (Itanium ABI), Rust (v0 and legacy), D, and the
 * main program of Ada. Ada's others look like C's (pack__proc): who knows that they are Ada's asks.
 */
#pragma once

#include <stddef.h>

/* Longer ones stay mangled; longer results are thrown away. */
#define KP_DEMANGLE_INPUT_MAX ((size_t)16 << 10)
#define KP_DEMANGLE_OUTPUT_MAX ((size_t)64 << 10)

/*
 * The demangled name in memory of its own (free() it), or NULL: not mangled, not understood, too
 * long, or out of memory; the name as it is serves then. The bytes are as hostile as the input.
 */
char *kp_demangle(const char *name);

/* Likewise for the name of a unit that is in Ada; NULL too where it has nothing to decode. */
char *kp_demangle_ada(const char *name);
