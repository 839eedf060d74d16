/*
 * What the product's symbolizer says of offsets in a file: frames MODULE OFFSET... For each offset
 * "= OFFSET ADDRESS", then its frames, innermost first: NAME, SYSTEM NAME, FILE (or nothing), LINE
 * and "inlined" or nothing, with tabs between (no name has one). Last "note: ..." if there is one.
 * Numbers of offsets are hexadecimal, ascending.
 */
#include "daemon/symbol/symbolizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *text)
{
	fprintf(stderr, "frames: %s\n", text);
	return 1;
}

static void print(uint64_t offset, const struct kp_frames *frames)
{
	printf("= %" PRIx64 " %" PRIx64 "\n", offset, frames->address);
	for (uint32_t i = 0; i < frames->count; i++) {
		const struct kp_frame *f = &frames->frame[i];

		printf("%s\t%s\t%s\t%u\t%s\n", f->name, f->system_name, f->file ? f->file : "",
		       f->line, f->inlined ? "inlined" : "");
	}
}

int main(int argc, char **argv)
{
	struct kp_module_file file = { .fd = -1 };
	size_t count = argc > 2 ? (size_t)argc - 2 : 0;
	uint64_t *offset = calloc(count + 1, sizeof(*offset));
	struct kp_frames *frames = calloc(count + 1, sizeof(*frames));
	struct kp_symbolizer *symbolizer;
	struct kp_err err;
	uint32_t module;

	if (!offset || !frames || argc < 2)
		return fail("frames MODULE OFFSET...");
	file.path = argv[1];
	for (size_t i = 0; i < count; i++)
		offset[i] = strtoull(argv[i + 2], NULL, 16);
	if (kp_symbolizer_create(NULL, &symbolizer, &err) < 0 ||
	    kp_symbolizer_module(symbolizer, &file, &module, &err) < 0 ||
	    kp_symbolizer_resolve(symbolizer, module, offset, count, frames, &err) < 0)
		return fail(err.text);
	for (size_t i = 0; i < count; i++)
		print(offset[i], &frames[i]);
	if (kp_symbolizer_note(symbolizer, module))
		printf("note: %s\n", kp_symbolizer_note(symbolizer, module));
	kp_symbolizer_destroy(symbolizer);
	free(offset);
	free(frames);
	return 0;
}
