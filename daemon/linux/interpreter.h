/* What the kernel starts together with a program, or instead of a script. */
#pragma once

#include <stddef.h>

/*
 * The path that the file names: an ELF program's dynamic linker (PT_INTERP), a script's interpreter
 * (#!). fd: open for reading, borrowed. "" where there is none, or not in size bytes.
 */
void kp_interpreter_read(int fd, char *ret, size_t size);
