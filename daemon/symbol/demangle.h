/* Mangled names -> what the programmer wrote: C++ (Itanium ABI) and Rust (v0 and legacy). */
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
