/*
 * PT_DYNAMIC: see dynamic.h. Runs in the daemon. Everything is read through libelf, which checks
 * that it is in the file; what it holds is believed no further.
 *
 * Nothing tells the number of symbols but the hash tables: DT_HASH has it, in DT_GNU_HASH the last
 * link of the last chain is that of the last symbol (the layout as ld.so of glibc reads it,
 * elf/dl-lookup.c, elf/dl-setup_hash.c).
 */
#include "daemon/symbol/dynamic.h"

#include <string.h>

/* More than any file has; against bad ones. */
#define ENTRIES_MAX 4096
#define BUCKETS_MAX ((uint32_t)1 << 24)
#define SYMBOLS_MAX ((uint32_t)1 << 24)
#define CHAIN_MAX 4096

/* Addresses in the file's own numbering; 0: not said. */
struct tables {
	uint64_t symbols, strings, string_size, hash, gnu_hash;
};

static uint64_t entry_size(const struct kp_elf_file *file, Elf_Type type)
{
	return gelf_fsize(file->elf, type, 1, EV_CURRENT);
}

/* What lies at an address, as the file has it; NULL: it does not have all of it. */
static Elf_Data *at_address(const struct kp_elf_file *file, uint64_t address, uint64_t size,
			    Elf_Type type)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct kp_elf_segment *s = &file->segment[i];

		if (address >= s->address && address - s->address < s->size)
			return size <= s->size - (address - s->address)
				       ? elf_getdata_rawchunk(
						 file->elf,
						 (int64_t)(address - s->address + s->offset), size,
						 type)
				       : NULL;
	}
	return NULL;
}

/* Words in the byte order of this machine, or NULL. */
static const uint32_t *words_at(const struct kp_elf_file *file, uint64_t address, uint64_t count)
{
	Elf_Data *data = at_address(file, address, count * 4, ELF_T_WORD);

	return data ? data->d_buf : NULL;
}

static Elf_Data *dynamic_section(const struct kp_elf_file *file)
{
	size_t count = 0;
	GElf_Phdr phdr;

	if (elf_getphdrnum(file->elf, &count) < 0)
		return NULL;
	for (size_t i = 0; i < count && gelf_getphdr(file->elf, (int)i, &phdr); i++)
		if (phdr.p_type == PT_DYNAMIC)
			return elf_getdata_rawchunk(file->elf, (int64_t)phdr.p_offset,
						    phdr.p_filesz, ELF_T_DYN);
	return NULL;
}

static bool read_tables(const struct kp_elf_file *file, struct tables *ret)
{
	Elf_Data *data = dynamic_section(file);
	GElf_Dyn dyn;

	*ret = (struct tables){ 0 };
	for (int i = 0; data && i < ENTRIES_MAX && gelf_getdyn(data, i, &dyn); i++) {
		uint64_t value = dyn.d_un.d_val;

		if (dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == DT_SYMTAB)
			ret->symbols = value;
		else if (dyn.d_tag == DT_STRTAB)
			ret->strings = value;
		else if (dyn.d_tag == DT_STRSZ)
			ret->string_size = value;
		else if (dyn.d_tag == DT_HASH)
			ret->hash = value;
		else if (dyn.d_tag == DT_GNU_HASH)
			ret->gnu_hash = value;
	}
	return ret->symbols && ret->strings && ret->string_size;
}

/* From the last chain's first symbol to the link that ends it. */
static uint32_t end_of_chain(const struct kp_elf_file *file, uint64_t links, uint32_t first,
			     uint32_t last)
{
	for (uint32_t i = 0; i < CHAIN_MAX && last < SYMBOLS_MAX; i++, last++) {
		const uint32_t *link = words_at(file, links + (uint64_t)(last - first) * 4, 1);

		if (!link)
			return 0;
		if (*link & 1)
			return last + 1;
	}
	return 0;
}

/* head: number of buckets, first symbol in the table, words of the filter, its shift. */
static uint32_t count_by_gnu_hash(const struct kp_elf_file *file, uint64_t table)
{
	const uint32_t *head = words_at(file, table, 4), *bucket;
	uint32_t last = 0;
	uint64_t buckets;

	if (!head || !head[0] || head[0] > BUCKETS_MAX)
		return 0;
	buckets = table + 16 + head[2] * entry_size(file, ELF_T_ADDR);
	bucket = words_at(file, buckets, head[0]);
	for (uint32_t i = 0; bucket && i < head[0]; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < head[1])
		return bucket ? head[1] : 0; /* nothing is exported, all is needed */
	return end_of_chain(file, buckets + (uint64_t)head[0] * 4, head[1], last);
}

static uint32_t count_symbols(const struct kp_elf_file *file, const struct tables *tables)
{
	const uint32_t *hash = tables->hash ? words_at(file, tables->hash, 2) : NULL;

	if (hash) /* buckets, chains: as many as symbols */
		return hash[1];
	return tables->gnu_hash ? count_by_gnu_hash(file, tables->gnu_hash) : 0;
}

bool kp_dynamic_read(const struct kp_elf_file *file, struct kp_dynamic *ret)
{
	struct tables tables;
	Elf_Data *strings;
	const char *end;

	*ret = (struct kp_dynamic){ 0 };
	if (!read_tables(file, &tables))
		return false;
	ret->count = count_symbols(file, &tables);
	if (ret->count == 0 || ret->count > SYMBOLS_MAX)
		return false;
	ret->symbols = at_address(file, tables.symbols, ret->count * entry_size(file, ELF_T_SYM),
				  ELF_T_SYM);
	strings = at_address(file, tables.strings, tables.string_size, ELF_T_BYTE);
	if (!ret->symbols || !strings)
		return false;
	end = memrchr(strings->d_buf, '\0', strings->d_size);
	ret->strings = strings->d_buf;
	ret->string_size = end ? (size_t)(end - ret->strings) + 1 : 0;
	return true;
}

const char *kp_dynamic_string(const struct kp_dynamic *dynamic, size_t at)
{
	return at < dynamic->string_size ? dynamic->strings + at : NULL;
}
