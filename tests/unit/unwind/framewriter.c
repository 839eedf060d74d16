/* Small ELF files with call frame sections: see framewriter.h. */
#include "tests/unit/unwind/framewriter.h"

#include <assert.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PHDR_COUNT 5
#define SECTION_COUNT 6
#define DATA_OFFSET 0x400u
#define NAMES "\0.text\0.eh_frame\0.debug_frame\0.shstrtab\0.note.go.buildid\0.symtab\0.strtab"
enum {
	NAME_TEXT = 1,
	NAME_EH_FRAME = 7,
	NAME_DEBUG_FRAME = 17,
	NAME_SHSTRTAB = 30,
	NAME_GO = 40,
	NAME_SYMTAB = 57,
	NAME_STRTAB = 65
};

void framewriter_put(struct framewriter *w, struct framewriter_bytes bytes)
{
	assert(w->size + bytes.size <= sizeof(w->data));
	if (bytes.size)
		memcpy(w->data + w->size, bytes.data, bytes.size);
	w->size += bytes.size;
}

void framewriter_u8(struct framewriter *w, uint8_t value)
{
	framewriter_put(w, BYTES(value));
}

void framewriter_u16(struct framewriter *w, uint16_t value)
{
	framewriter_put(w, (struct framewriter_bytes){ (const uint8_t *)&value, sizeof(value) });
}

void framewriter_u32(struct framewriter *w, uint32_t value)
{
	framewriter_put(w, (struct framewriter_bytes){ (const uint8_t *)&value, sizeof(value) });
}

void framewriter_u64(struct framewriter *w, uint64_t value)
{
	framewriter_put(w, (struct framewriter_bytes){ (const uint8_t *)&value, sizeof(value) });
}

size_t framewriter_begin(struct framewriter *w)
{
	size_t entry = w->size;

	framewriter_u32(w, 0);
	return entry;
}

void framewriter_end(struct framewriter *w, size_t entry)
{
	uint32_t length;

	while ((w->size - entry) % 4)
		framewriter_u8(w, DW_CFA_nop);
	length = (uint32_t)(w->size - entry - 4);
	memcpy(w->data + entry, &length, sizeof(length));
}

static size_t write_cie(struct framewriter *w, const char *augmentation,
			struct framewriter_bytes program)
{
	size_t entry = framewriter_begin(w);

	framewriter_u32(w, 0);
	framewriter_u8(w, 1);
	framewriter_put(w, (struct framewriter_bytes){ (const uint8_t *)augmentation,
						       strlen(augmentation) + 1 });
	framewriter_put(w, BYTES(1, 0x78)); /* alignment: 1, -8 */
	framewriter_u8(w, w->machine == EM_X86_64 ? 16 : w->machine == EM_AARCH64 ? 30 : 1);
	framewriter_put(w, BYTES(1, DW_EH_PE_pcrel | DW_EH_PE_sdata4));
	framewriter_put(w, program);
	framewriter_end(w, entry);
	return entry;
}

size_t framewriter_cie(struct framewriter *w, struct framewriter_bytes program)
{
	return write_cie(w, "zR", program);
}

size_t framewriter_signal_cie(struct framewriter *w, struct framewriter_bytes program)
{
	return write_cie(w, "zRS", program);
}

size_t framewriter_fde(struct framewriter *w, size_t cie, uint64_t start, uint32_t size,
		       struct framewriter_bytes program)
{
	size_t entry = framewriter_begin(w);

	framewriter_u32(w, (uint32_t)(w->size - cie));
	framewriter_u32(w, (uint32_t)(FRAMEWRITER_CODE + start - (FRAMEWRITER_FRAMES + w->size)));
	framewriter_u32(w, size);
	framewriter_u8(w, 0); /* augmentation data */
	framewriter_put(w, program);
	framewriter_end(w, entry);
	return entry;
}

/* Behind one another, as the section has them. */
static size_t write_content(const struct framewriter *w, unsigned parts, uint8_t *to)
{
	Elf64_Chdr header = {
		.ch_type = ELFCOMPRESS_ZLIB,
		.ch_size = w->size,
		.ch_addralign = 1,
	};
	uLongf size = compressBound(w->size);

	if (!(parts & FRAMEWRITER_COMPRESSED)) {
		memcpy(to, w->data, w->size);
		return w->size;
	}
	memcpy(to, &header, sizeof(header));
	assert(compress(to + sizeof(header), &size, w->data, w->size) == Z_OK);
	return sizeof(header) + size;
}

static void write_segments(Elf64_Phdr *phdr, unsigned parts, size_t size, size_t hdr_at)
{
	phdr[0] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = FRAMEWRITER_CODE,
		.p_memsz = FRAMEWRITER_CODE_SIZE,
	};
	phdr[1] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R,
		.p_offset = DATA_OFFSET,
		.p_vaddr = FRAMEWRITER_FRAMES,
		.p_filesz = size,
		.p_memsz = size,
	};
	phdr[2] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R,
		.p_offset = hdr_at,
		.p_vaddr = FRAMEWRITER_HDR,
		.p_filesz = 8,
		.p_memsz = 8,
	};
	phdr[3] = (Elf64_Phdr){
		.p_type = parts & FRAMEWRITER_EH_FRAME_HDR ? PT_GNU_EH_FRAME : PT_NULL,
		.p_vaddr = FRAMEWRITER_HDR,
		.p_memsz = 8,
	};
	phdr[4] = (Elf64_Phdr){
		.p_type = PT_DYNAMIC,
		.p_offset = hdr_at + 8,
		.p_filesz = 2 * sizeof(Elf64_Dyn),
		.p_memsz = 2 * sizeof(Elf64_Dyn),
	};
}

static void write_sections(Elf64_Shdr *shdr, unsigned parts, size_t size, size_t names_at)
{
	shdr[1] = (Elf64_Shdr){
		.sh_name = NAME_TEXT,
		.sh_type = SHT_NOBITS,
		.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = FRAMEWRITER_CODE,
		.sh_size = FRAMEWRITER_CODE_SIZE,
	};
	shdr[2] = (Elf64_Shdr){
		.sh_name = parts & FRAMEWRITER_DEBUG ? NAME_DEBUG_FRAME : NAME_EH_FRAME,
		.sh_type = SHT_PROGBITS,
		.sh_flags = parts & FRAMEWRITER_COMPRESSED ? SHF_COMPRESSED
			    : parts & FRAMEWRITER_DEBUG	   ? 0
							   : SHF_ALLOC,
		.sh_addr = parts & FRAMEWRITER_DEBUG ? 0 : FRAMEWRITER_FRAMES,
		.sh_offset = DATA_OFFSET,
		.sh_size = size,
	};
	shdr[3] = (Elf64_Shdr){
		.sh_name = NAME_SHSTRTAB,
		.sh_type = SHT_STRTAB,
		.sh_offset = names_at,
		.sh_size = sizeof(NAMES),
	};
	if (parts & FRAMEWRITER_GO)
		shdr[4] = (Elf64_Shdr){ .sh_name = NAME_GO, .sh_type = SHT_NOTE };
	if (parts & FRAMEWRITER_SYMBOLS) {
		shdr[2].sh_name = NAME_SYMTAB;
		shdr[2].sh_type = SHT_SYMTAB;
		shdr[5] = shdr[2];
		shdr[5].sh_name = NAME_STRTAB;
		shdr[5].sh_type = SHT_STRTAB;
	}
}

uint8_t *framewriter_file(const struct framewriter *w, unsigned parts, size_t *ret_size)
{
	uint8_t *content = calloc(1, sizeof(Elf64_Chdr) + compressBound(sizeof(w->data)));
	size_t size = write_content(w, parts, content), padded = (size + 7) & ~(size_t)7;
	size_t hdr_at = DATA_OFFSET + padded, dynamic_at = hdr_at + 8;
	size_t names_at = dynamic_at + 2 * sizeof(Elf64_Dyn);
	size_t sections_at = names_at + ((sizeof(NAMES) + 7) & ~(size_t)7);
	size_t total = parts & FRAMEWRITER_SECTIONS
			       ? sections_at + SECTION_COUNT * sizeof(Elf64_Shdr)
			       : names_at;
	const uint8_t hdr[4] = { 1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_omit,
				 DW_EH_PE_omit };
	const uint32_t frames = FRAMEWRITER_FRAMES - (FRAMEWRITER_HDR + 4);
	const Elf64_Dyn got = { .d_tag = DT_PLTGOT, .d_un.d_ptr = FRAMEWRITER_GOT };
	uint8_t *file = calloc(1, total);
	Elf64_Ehdr *header = (Elf64_Ehdr *)file;

	assert(file && content);
	memcpy(header->e_ident, ELFMAG, SELFMAG);
	header->e_ident[EI_CLASS] = ELFCLASS64;
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_machine = w->machine;
	header->e_phoff = sizeof(*header);
	header->e_phentsize = sizeof(Elf64_Phdr);
	header->e_phnum = PHDR_COUNT;
	write_segments((Elf64_Phdr *)(header + 1), parts, size, hdr_at);
	memcpy(file + DATA_OFFSET, content, size);
	memcpy(file + hdr_at, hdr, sizeof(hdr));
	memcpy(file + hdr_at + 4, &frames, sizeof(frames));
	memcpy(file + dynamic_at, &got, sizeof(got));
	if (parts & FRAMEWRITER_SECTIONS) {
		header->e_shoff = sections_at;
		header->e_shentsize = sizeof(Elf64_Shdr);
		header->e_shnum = SECTION_COUNT;
		header->e_shstrndx = 3;
		memcpy(file + names_at, NAMES, sizeof(NAMES));
		write_sections((Elf64_Shdr *)(file + sections_at), parts, size, names_at);
	}
	free(content);
	*ret_size = total;
	return file;
}

void framewriter_build(const struct framewriter *w, unsigned parts, struct framewriter_table *ret)
{
	size_t size, bytes = 0;
	uint8_t *file = framewriter_file(w, parts, &size);

	memset(ret, 0, sizeof(*ret));
	ret->r = kp_unwind_build(file, size, "test", &ret->bytes, &bytes, &ret->stats, &ret->err);
	free(file);
	assert(ret->r != 0 || kp_table_open(&ret->table, ret->bytes, bytes, w->machine) == 0);
}

void framewriter_table_deinit(struct framewriter_table *table)
{
	free(table->bytes);
}

struct kp_table_rule framewriter_rule(const struct framewriter_table *table, uint64_t off)
{
	struct kp_table_rule rule;

	memset(&rule, 0xff, sizeof(rule));
	if (table->r == 0)
		kp_table_find(&table->table, FRAMEWRITER_CODE + off, &rule);
	return rule;
}
