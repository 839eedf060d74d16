/*
 * Bytes of a module's code, for who looks at instructions. Only of the file that ran: its build id
 * decides, where it is known.
 */
#pragma once

#include "daemon/symbol/symbolizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * n bytes from file_offset on. sysroot: as of struct kp_symbolizer_options. How many there are; 0
 * where there is no such file. Opens it each time unless it is pinned.
 */
size_t kp_code_read(const struct kp_module_file *file, const char *sysroot, uint64_t file_offset,
		    void *ret, size_t n);
