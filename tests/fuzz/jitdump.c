/* The reader of jitdumps (daemon/watch/jitdump.h) over bytes: the program that writes them is not trusted. */
#include "tests/fuzz/fuzz.h"

#include "daemon/watch/jitdump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take(void *ctx, uint64_t start, uint64_t end, const char *name, struct kp_err *err)
{
	(void)ctx, (void)err;
	if (end <= start || !name[0] || strlen(name) > 65536)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_err err;
	FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

	if (!f)
		return 0;
	if (kp_jitdump_read(f, take, NULL, &err) < 0)
		abort();
	fclose(f);
	return 0;
}
