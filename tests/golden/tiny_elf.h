/*
 * An ELF file with a build id, some code-less text and a symbol table, made in memory: enough to
 * give addresses names without a real program. Test code.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The text lies at TINY_TEXT_OFFSET in the file and is linked to TINY_TEXT_ADDRESS, so that
 * offsets and addresses differ, as lld makes them.
 */
#define TINY_TEXT_OFFSET 0x200u
#define TINY_TEXT_BYTES 0x600u
#define TINY_TEXT_ADDRESS UINT64_C(0x401200)
#define TINY_BUILD_ID_BYTES 20u

struct tiny_symbol {
	const char *name;
	uint64_t offset; /* in the file, in the text */
	uint64_t size;
};

/* Writes the file to out. Returns its size, or 0 if room bytes are not enough. */
size_t tiny_elf(void *out, size_t room, const struct tiny_symbol *symbol, size_t n,
		const uint8_t *build_id);
