/*
 * Writes a small ELF file (x86-64): PT_LOAD and PT_NOTE, .text, .note.gnu.build-id, .symtab. Test
 * code.
 */
#include "tests/golden/tiny_elf.h"

#include <elf.h>
#include <string.h>

#define NOTE_OFFSET 0x100u
#define NOTE_BYTES (sizeof(Elf64_Nhdr) + 4 + TINY_BUILD_ID_BYTES)
#define SYMTAB_OFFSET (TINY_TEXT_OFFSET + TINY_TEXT_BYTES)

enum { SECTION_NULL, SECTION_TEXT, SECTION_NOTE, SECTION_SYMTAB, SECTION_STRTAB, SECTION_COUNT };

/* Section names stand in front of the symbols' names. */
static const char section_names[] = "\0.text\0.note.gnu.build-id\0.symtab\0.strtab";

static uint32_t name_of(const char *section)
{
	const char *at = memmem(section_names, sizeof(section_names), section, strlen(section) + 1);

	return (uint32_t)(at - section_names);
}

static size_t string_bytes(const struct tiny_symbol *symbol, size_t n)
{
	size_t bytes = sizeof(section_names);

	for (size_t i = 0; i < n; i++)
		bytes += strlen(symbol[i].name) + 1;
	return bytes;
}

static void put_headers(uint8_t *file, size_t sections_at)
{
	Elf64_Ehdr head = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(head),
		.e_shoff = sections_at,
		.e_ehsize = sizeof(head),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTION_COUNT,
		.e_shstrndx = SECTION_STRTAB,
	};
	Elf64_Phdr segment[] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = TINY_TEXT_OFFSET,
		  .p_vaddr = TINY_TEXT_ADDRESS,
		  .p_filesz = TINY_TEXT_BYTES,
		  .p_memsz = TINY_TEXT_BYTES,
		  .p_align = 0x1000 },
		{ .p_type = PT_NOTE,
		  .p_offset = NOTE_OFFSET,
		  .p_filesz = NOTE_BYTES,
		  .p_align = 4 },
	};

	memcpy(file, &head, sizeof(head));
	memcpy(file + sizeof(head), segment, sizeof(segment));
}

static void put_note(uint8_t *file, const uint8_t *build_id)
{
	Elf64_Nhdr note = { 4, TINY_BUILD_ID_BYTES, NT_GNU_BUILD_ID };

	memcpy(file + NOTE_OFFSET, &note, sizeof(note));
	memcpy(file + NOTE_OFFSET + sizeof(note), "GNU", 4);
	memcpy(file + NOTE_OFFSET + sizeof(note) + 4, build_id, TINY_BUILD_ID_BYTES);
}

static void put_symbols(uint8_t *file, size_t strings_at, const struct tiny_symbol *symbol,
			size_t n)
{
	size_t name = sizeof(section_names);

	memcpy(file + strings_at, section_names, sizeof(section_names));
	for (size_t i = 0; i < n; i++) {
		Elf64_Sym entry = {
			.st_name = (uint32_t)name,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = SECTION_TEXT,
			.st_value = symbol[i].offset - TINY_TEXT_OFFSET + TINY_TEXT_ADDRESS,
			.st_size = symbol[i].size,
		};

		/* Entry 0 stays empty. */
		memcpy(file + SYMTAB_OFFSET + (i + 1) * sizeof(entry), &entry, sizeof(entry));
		strcpy((char *)file + strings_at + name, symbol[i].name);
		name += strlen(symbol[i].name) + 1;
	}
}

static void put_sections(uint8_t *file, size_t sections_at, size_t strings_at, size_t n,
			 size_t strings)
{
	Elf64_Shdr section[SECTION_COUNT] = {
		[SECTION_TEXT] = { .sh_name = name_of(".text"),
				   .sh_type = SHT_PROGBITS,
				   .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				   .sh_addr = TINY_TEXT_ADDRESS,
				   .sh_offset = TINY_TEXT_OFFSET,
				   .sh_size = TINY_TEXT_BYTES,
				   .sh_addralign = 16 },
		[SECTION_NOTE] = { .sh_name = name_of(".note.gnu.build-id"),
				   .sh_type = SHT_NOTE,
				   .sh_offset = NOTE_OFFSET,
				   .sh_size = NOTE_BYTES,
				   .sh_addralign = 4 },
		[SECTION_SYMTAB] = { .sh_name = name_of(".symtab"),
				     .sh_type = SHT_SYMTAB,
				     .sh_offset = SYMTAB_OFFSET,
				     .sh_size = (n + 1) * sizeof(Elf64_Sym),
				     .sh_link = SECTION_STRTAB,
				     .sh_info = 1,
				     .sh_addralign = 8,
				     .sh_entsize = sizeof(Elf64_Sym) },
		[SECTION_STRTAB] = { .sh_name = name_of(".strtab"),
				     .sh_type = SHT_STRTAB,
				     .sh_offset = strings_at,
				     .sh_size = strings,
				     .sh_addralign = 1 },
	};

	memcpy(file + sections_at, section, sizeof(section));
}

size_t tiny_elf(void *out, size_t room, const struct tiny_symbol *symbol, size_t n,
		const uint8_t *build_id)
{
	size_t strings_at = SYMTAB_OFFSET + (n + 1) * sizeof(Elf64_Sym);
	size_t strings = string_bytes(symbol, n);
	size_t sections_at = (strings_at + strings + 7) & ~(size_t)7;
	size_t size = sections_at + SECTION_COUNT * sizeof(Elf64_Shdr);

	if (size > room)
		return 0;
	memset(out, 0, size);
	put_headers(out, sections_at);
	put_note(out, build_id);
	put_symbols(out, strings_at, symbol, n);
	put_sections(out, sections_at, strings_at, n, strings);
	return size;
}
