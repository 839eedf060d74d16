/*
 * Small ELF files in memory, for what no linker would write: overlapping, empty and absurd
 * symbols, lying headers. x86-64, one PT_LOAD with 0x1000 bytes of text at 0x401000, which lies at
 * offset 0x200 of the file (so that offset and address differ by more than a page's rest).
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define ELFWRITER_TEXT 0x401000u
#define ELFWRITER_TEXT_SIZE 0x1000u
#define ELFWRITER_TEXT_OFFSET 0x200u

/* Section numbers. */
enum {
	ELFWRITER_SECTION_TEXT = 1,
	ELFWRITER_SECTION_DATA, /* 0x1000 bytes at 0x403000, not executable */
	ELFWRITER_SECTION_NOTE,
	ELFWRITER_SECTION_SYMTAB,
	ELFWRITER_SECTION_STRTAB,
	ELFWRITER_SECTION_SHSTRTAB,
	ELFWRITER_SECTIONS
};

struct elfwriter_symbol {
	const char *name;
	uint64_t value, size;
	unsigned char bind, type; /* STB_..., STT_... */
	uint16_t section; /* 0: text */
};

struct elfwriter_image {
	_Alignas(8) unsigned char bytes[0x4000];
	size_t size;
};

/* build_id: 20 bytes, or NULL. The headers of the result may be changed before use. */
void elfwriter_write(const struct elfwriter_symbol *symbol, size_t count, const uint8_t *build_id,
		     struct elfwriter_image *ret);

/* The section header in the image. */
Elf64_Shdr *elfwriter_section(struct elfwriter_image *image, unsigned number);
