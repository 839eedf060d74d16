/*
 * The builder of unwind tables (daemon/unwind/build.h) over files, or over the content of a call
 * frame section that is put into a file here: that way each input has a chance to be understood.
 * tests/fuzz/seeds.py writes such inputs.
 *
 * Whatever the bytes: the answer comes soon, nothing outside of them is read, and a table that
 * comes out is one that the reader finds in order.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unwind/framewriter.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct head {
	/* 0: an ELF file follows; CODE: code that nothing describes; else a section, for the CPU form % 3 */
	uint8_t form;
	uint8_t parts; /* enum framewriter_parts; of code: where a second function begins */
};

enum { CODE = 255 };

/* A program of code alone, with two functions. */
struct code_file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr section[5]; /* none, .text, .symtab, .strtab, .shstrtab */
	Elf64_Sym symbol[2];
	char names[40];
	uint8_t code[];
};

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_page(const struct kp_table *table, const struct kp_table_row *row, uint32_t begin,
		       uint32_t end)
{
	check(begin < end && end <= table->row_count);
	check(row[begin].pc_low == 0);
	for (uint32_t i = begin; i < end; i++) {
		check(i == begin || row[i].pc_low > row[i - 1].pc_low);
		check(i == begin || row[i].rule != row[i - 1].rule);
		check(row[i].rule < table->rule_count);
	}
}

static void check_table(const void *bytes, size_t size, const struct kp_unwind_stats *stats)
{
	const struct kp_table_head *head = bytes;
	const struct kp_table_rule *rule = (const void *)(head + 1);
	const uint32_t *pages = (const void *)(rule + head->rule_count);
	uint64_t said = 0;
	struct kp_table table;

	check(kp_table_open(&table, bytes, size, head->machine) == 0);
	check(head->bytes == size && head->rule_count >= 2 && pages[0] == 0);
	check(stats->rows == head->row_count && stats->rules == head->rule_count);
	for (uint32_t i = 0; i < head->rule_count; i++)
		check(rule[i].cfa < KP_CFA_COUNT && rule[i].fp <= KP_REG_UNDEFINED &&
		      rule[i].ra < KP_REG_UNDEFINED);
	for (uint32_t i = 0; i < head->page_count; i++)
		check_page(&table, (const void *)(pages + head->page_count + 1), pages[i],
			   pages[i + 1]);
	check(pages[head->page_count] == head->row_count);
	for (int kind = KP_CFA_GAP + 1; kind < KP_CFA_COUNT; kind++)
		said += stats->cfa_bytes[kind];
	check(said <= (uint64_t)head->page_count << KP_TABLE_PAGE_SHIFT);
	check(stats->lost_fp_bytes <= said);
}

static void build(const uint8_t *file, size_t size)
{
	struct kp_unwind_stats stats;
	struct kp_err err = { 0 };
	size_t bytes = 0;
	void *table = NULL;
	int r = kp_unwind_build(file, size, "fuzz", &table, &bytes, &stats, &err);

	check(r == 0 || r == KP_UNWIND_NONE || r == -KP_EBADDATA);
	check((r < 0) == (err.text[0] != 0) && (r == 0) == (table != NULL));
	if (r == 0)
		check_table(table, bytes, &stats);
	free(table);
}

static void build_section(const struct head *head, const uint8_t *data, size_t size)
{
	static const uint16_t machines[] = { EM_X86_64, EM_AARCH64, EM_RISCV };
	struct framewriter w = { .machine = machines[head->form % 3] };
	unsigned parts = head->parts;
	uint8_t *file;

	if (!(parts & FRAMEWRITER_DEBUG)) /* it would not be looked at, and takes long */
		parts &= ~(unsigned)FRAMEWRITER_COMPRESSED;
	framewriter_put(&w, (struct framewriter_bytes){
				    data, size < sizeof(w.data) ? size : sizeof(w.data) });
	file = framewriter_file(&w, parts, &size);
	build(file, size);
	free(file);
}

static Elf64_Shdr section_of(uint32_t name, size_t at, size_t size, uint64_t flags,
			     uint64_t address)
{
	return (Elf64_Shdr){
		.sh_name = name,
		.sh_type = SHT_PROGBITS,
		.sh_flags = flags,
		.sh_addr = address,
		.sh_offset = at,
		.sh_size = size,
	};
}

static void build_code(const struct head *head, const uint8_t *data, size_t size)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
	const size_t at = sizeof(struct code_file), names_at = offsetof(struct code_file, names);
	struct code_file *file = calloc(1, at + size);

	if (!file)
		return;
	memcpy(file->header.e_ident, ELFMAG "\2\1\1", 7);
	file->header.e_type = ET_EXEC;
	file->header.e_machine = EM_X86_64;
	file->header.e_entry = FRAMEWRITER_CODE + at;
	file->header.e_phoff = offsetof(struct code_file, segment);
	file->header.e_shoff = offsetof(struct code_file, section);
	file->header.e_phentsize = sizeof(Elf64_Phdr);
	file->header.e_phnum = 1;
	file->header.e_shentsize = sizeof(Elf64_Shdr);
	file->header.e_shnum = 5;
	file->header.e_shstrndx = 4;
	file->segment = (Elf64_Phdr){ .p_type = PT_LOAD,
				      .p_flags = PF_R | PF_X,
				      .p_vaddr = FRAMEWRITER_CODE,
				      .p_filesz = at + size,
				      .p_memsz = at + size };
	file->section[1] =
		section_of(1, at, size, SHF_ALLOC | SHF_EXECINSTR, FRAMEWRITER_CODE + at);
	file->section[2] =
		section_of(7, offsetof(struct code_file, symbol), sizeof(file->symbol), 0, 0);
	file->section[3] = section_of(15, names_at, sizeof(names), 0, 0);
	file->section[4] = section_of(23, names_at, sizeof(names), 0, 0);
	for (size_t i = 0; i < 2; i++)
		file->symbol[i] =
			(Elf64_Sym){ .st_info = STT_FUNC,
				     .st_shndx = 1,
				     .st_value = FRAMEWRITER_CODE + at + i * head->parts };
	memcpy(file->names, names, sizeof(names));
	memcpy(file->code, data, size);
	build((const uint8_t *)file, at + size);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	if (head.form == CODE)
		build_code(&head, data + sizeof(head), size - sizeof(head));
	else if (head.form)
		build_section(&head, data + sizeof(head), size - sizeof(head));
	else
		build(data + sizeof(head), size - sizeof(head));
	return 0;
}
