/* Small ELF files in memory: see elfwriter.h. */
#include "tests/unit/symbol/elfwriter.h"

#include <assert.h>
#include <string.h>

#define NOTE_OFFSET 0x1200u
#define SYMTAB_OFFSET 0x1280u
#define STRTAB_OFFSET 0x2000u
#define SHSTRTAB_OFFSET 0x3800u
#define SECTIONS_OFFSET 0x3880u

static const char section_names[] = "\0.text\0.data\0.note\0.symtab\0.strtab\0.shstrtab";

static void write_header(unsigned char *bytes)
{
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Phdr *load = (Elf64_Phdr *)(bytes + sizeof(*header));

	memcpy(header->e_ident, ELFMAG, SELFMAG);
	header->e_ident[EI_CLASS] = ELFCLASS64;
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_ident[EI_VERSION] = EV_CURRENT;
	header->e_type = ET_DYN;
	header->e_machine = EM_X86_64;
	header->e_version = EV_CURRENT;
	header->e_phoff = sizeof(*header);
	header->e_shoff = SECTIONS_OFFSET;
	header->e_ehsize = sizeof(*header);
	header->e_phentsize = sizeof(Elf64_Phdr);
	header->e_phnum = 2;
	header->e_shentsize = sizeof(Elf64_Shdr);
	header->e_shnum = ELFWRITER_SECTIONS;
	header->e_shstrndx = ELFWRITER_SECTION_SHSTRTAB;
	load->p_type = PT_LOAD;
	load->p_flags = PF_R | PF_X;
	load->p_offset = ELFWRITER_TEXT_OFFSET;
	load->p_vaddr = ELFWRITER_TEXT;
	load->p_filesz = load->p_memsz = ELFWRITER_TEXT_SIZE;
	load->p_align = 1;
}

static void write_note(unsigned char *bytes, const uint8_t *build_id)
{
	Elf64_Phdr *note = (Elf64_Phdr *)(bytes + sizeof(Elf64_Ehdr)) + 1;
	Elf64_Nhdr header = { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };

	note->p_type = build_id ? PT_NOTE : PT_NULL;
	note->p_offset = NOTE_OFFSET;
	note->p_filesz = sizeof(header) + 24;
	note->p_align = 4;
	if (!build_id)
		return;
	memcpy(bytes + NOTE_OFFSET, &header, sizeof(header));
	memcpy(bytes + NOTE_OFFSET + sizeof(header), "GNU", 4);
	memcpy(bytes + NOTE_OFFSET + sizeof(header) + 4, build_id, 20);
}

static size_t write_symbols(unsigned char *bytes, const struct elfwriter_symbol *symbol,
			    size_t count)
{
	Elf64_Sym *out = (Elf64_Sym *)(bytes + SYMTAB_OFFSET);
	size_t at = 1;

	assert((count + 1) * sizeof(*out) <= STRTAB_OFFSET - SYMTAB_OFFSET);
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(symbol[i].name) + 1;

		assert(at + len <= SHSTRTAB_OFFSET - STRTAB_OFFSET);
		memcpy(bytes + STRTAB_OFFSET + at, symbol[i].name, len);
		out[i + 1] = (Elf64_Sym){
			.st_name = (Elf64_Word)at,
			.st_info = ELF64_ST_INFO(symbol[i].bind, symbol[i].type),
			.st_shndx = symbol[i].section ? symbol[i].section : ELFWRITER_SECTION_TEXT,
			.st_value = symbol[i].value,
			.st_size = symbol[i].size,
		};
		at += len;
	}
	return at;
}

void elfwriter_write(const struct elfwriter_symbol *symbol, size_t count, const uint8_t *build_id,
		     struct elfwriter_image *ret)
{
	size_t strings;

	memset(ret, 0, sizeof(*ret));
	ret->size = SECTIONS_OFFSET + ELFWRITER_SECTIONS * sizeof(Elf64_Shdr);
	write_header(ret->bytes);
	write_note(ret->bytes, build_id);
	strings = write_symbols(ret->bytes, symbol, count);
	memcpy(ret->bytes + SHSTRTAB_OFFSET, section_names, sizeof(section_names));
	*elfwriter_section(ret, ELFWRITER_SECTION_TEXT) = (Elf64_Shdr){
		.sh_name = 1,
		.sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = ELFWRITER_TEXT,
		.sh_offset = ELFWRITER_TEXT_OFFSET,
		.sh_size = ELFWRITER_TEXT_SIZE,
		.sh_addralign = 16,
	};
	*elfwriter_section(ret, ELFWRITER_SECTION_DATA) = (Elf64_Shdr){
		.sh_name = 7,
		.sh_type = SHT_NOBITS,
		.sh_flags = SHF_ALLOC | SHF_WRITE,
		.sh_addr = 0x403000,
		.sh_size = 0x1000,
		.sh_addralign = 16,
	};
	*elfwriter_section(ret, ELFWRITER_SECTION_NOTE) = (Elf64_Shdr){
		.sh_name = 13,
		.sh_type = SHT_NULL,
	};
	*elfwriter_section(ret, ELFWRITER_SECTION_SYMTAB) = (Elf64_Shdr){
		.sh_name = 19,
		.sh_type = SHT_SYMTAB,
		.sh_offset = SYMTAB_OFFSET,
		.sh_size = (count + 1) * sizeof(Elf64_Sym),
		.sh_link = ELFWRITER_SECTION_STRTAB,
		.sh_info = 1,
		.sh_addralign = 8,
		.sh_entsize = sizeof(Elf64_Sym),
	};
	*elfwriter_section(ret, ELFWRITER_SECTION_STRTAB) = (Elf64_Shdr){
		.sh_name = 27,
		.sh_type = SHT_STRTAB,
		.sh_offset = STRTAB_OFFSET,
		.sh_size = strings,
		.sh_addralign = 1,
	};
	*elfwriter_section(ret, ELFWRITER_SECTION_SHSTRTAB) = (Elf64_Shdr){
		.sh_name = 35,
		.sh_type = SHT_STRTAB,
		.sh_offset = SHSTRTAB_OFFSET,
		.sh_size = sizeof(section_names),
		.sh_addralign = 1,
	};
}

Elf64_Shdr *elfwriter_section(struct elfwriter_image *image, unsigned number)
{
	return (Elf64_Shdr *)(image->bytes + SECTIONS_OFFSET) + number;
}
