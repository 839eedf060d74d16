/*
 * Mangled names (daemon/symbol/demangle.h): each is done in little time and memory. An input is the
 * name.
 */
#include "daemon/symbol/demangle.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check(char *text)
{
	if (text && strlen(text) > KP_DEMANGLE_OUTPUT_MAX)
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);

	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	check(kp_demangle(name));
	check(kp_demangle_ada(name));
	free(name);
	return 0;
}
