/*
 * Streams of xz (daemon/symbol/xz.h): what is measured at most that large is unpacked by libdw, and
 * may be damaged, but no larger.
 */
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/xz.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#define MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_elf_file *file = NULL;
	size_t measured, unpacked = 0;

	if (kp_xz_unpacked_size(data, size, MAX, &measured, NULL) != 0)
		return 0;
	if (measured > MAX)
		abort();
	if (kp_elf_file_open_packed(data, size, "fuzz", &file, NULL) == 0 &&
	    elf_rawfile(file->elf, &unpacked) && unpacked > measured)
		abort();
	kp_elf_file_destroy(file);
	return 0;
}
