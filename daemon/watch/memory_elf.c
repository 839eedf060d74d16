/*
 * Modules read from a target's memory: see memory_elf.h. Runs in the session loop. The target may
 * have written whatever it likes there: each number is checked where it is used, and the numbers of
 * reads and bytes are bounded. Layouts: ELF gABI, "Program Header", "Dynamic Section"; DT_GNU_HASH as
 * in binutils' documentation of --hash-style. 64-bit little-endian only, as all our targets are.
 */
#include "daemon/watch/memory_elf.h"

#include "common/cleanup.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#define PHDRS_MAX 64u
#define DYNAMIC_MAX 512u /* entries; real ones are some 30 */
#define NOTES_MAX 4096u
#define BUILD_ID_MAX 64u
#define SYMBOLS_MAX (((uint64_t)4 << 20) / sizeof(Elf64_Sym))
#define STRINGS_MAX ((uint64_t)6 << 20)
#define CHAIN_MAX 4096u /* of one bucket */

struct module {
	pid_t pid;
	uint64_t bias; /* address in memory - address in the file */
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[PHDRS_MAX];
	uint8_t build_id[BUILD_ID_MAX];
	uint32_t build_id_len;
	Elf64_Sym *symbol;
	char *string;
	uint64_t symbols, string_size;
};

static void kp_module_deinit(struct module *m)
{
	free(m->symbol);
	free(m->string);
}

static bool read_at(const struct module *m, uint64_t address, void *ret, size_t size)
{
	struct iovec local = { ret, size };
	struct iovec remote = { (void *)(uintptr_t)address, size };

	return process_vm_readv(m->pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Where the file's first byte is mapped: before map, nearest to it. */
static const struct kp_map *find_start(const struct kp_maps *maps, const struct kp_map *map)
{
	const struct kp_map *found = NULL;

	for (size_t i = 0; i < maps->count && maps->map[i].start <= map->start; i++) {
		const struct kp_map *other = &maps->map[i];

		if (other->offset == 0 && other->read && other->inode == map->inode &&
		    other->dev == map->dev)
			found = other;
	}
	return found;
}

/* The first segment has the file's first byte; where it lies gives the bias. */
static bool read_headers(struct module *m, uint64_t start)
{
	const Elf64_Ehdr *e = &m->ehdr;

	if (!read_at(m, start, &m->ehdr, sizeof(m->ehdr)) ||
	    memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->e_ident[EI_DATA] != ELFDATA2LSB || e->e_phentsize != sizeof(Elf64_Phdr) ||
	    e->e_phnum > PHDRS_MAX || e->e_phoff > UINT32_MAX ||
	    !read_at(m, start + e->e_phoff, m->phdr, e->e_phnum * sizeof(Elf64_Phdr)))
		return false;
	for (unsigned i = 0; i < e->e_phnum; i++) {
		if (m->phdr[i].p_type == PT_LOAD && m->phdr[i].p_offset == 0) {
			m->bias = start - m->phdr[i].p_vaddr;
			return true;
		}
	}
	return false;
}

static void read_build_id(struct module *m, const Elf64_Phdr *phdr)
{
	uint8_t notes[NOTES_MAX];
	size_t size = phdr->p_memsz < sizeof(notes) ? phdr->p_memsz : sizeof(notes), at = 0;
	size_t align = phdr->p_align == 8 ? 8 : 4;

	if (!read_at(m, m->bias + phdr->p_vaddr, notes, size))
		return;
	while (size - at >= sizeof(Elf64_Nhdr) + 4) {
		Elf64_Nhdr note;
		size_t desc, next;

		memcpy(&note, notes + at, sizeof(note));
		if (note.n_namesz > NOTES_MAX || note.n_descsz > NOTES_MAX)
			return;
		desc = at + sizeof(note) + ((note.n_namesz + align - 1) & ~(align - 1));
		next = desc + ((note.n_descsz + align - 1) & ~(align - 1));
		if (desc + note.n_descsz > size)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(notes + at + sizeof(note), "GNU", 4) == 0 &&
		    note.n_descsz <= BUILD_ID_MAX) {
			memcpy(m->build_id, notes + desc, note.n_descsz);
			m->build_id_len = note.n_descsz;
			return;
		}
		if (next >= size)
			return;
		at = next;
	}
}

/* What the dynamic section says of the symbols; addresses in memory, 0 if it does not. */
struct dynamic {
	uint64_t symbols, strings, string_size, hash, gnu_hash;
};

/* glibc makes addresses of them, other loaders and some systems leave them as in the file. */
static uint64_t in_memory(const struct module *m, uint64_t value)
{
	return value >= m->bias ? value : m->bias + value;
}

static void read_dynamic(const struct module *m, const Elf64_Phdr *phdr, struct dynamic *ret)
{
	Elf64_Dyn dyn[DYNAMIC_MAX];
	size_t count = phdr->p_memsz / sizeof(dyn[0]);

	if (count > DYNAMIC_MAX)
		count = DYNAMIC_MAX;
	if (!read_at(m, m->bias + phdr->p_vaddr, dyn, count * sizeof(dyn[0])))
		return;
	for (size_t i = 0; i < count && dyn[i].d_tag != DT_NULL; i++) {
		uint64_t value = dyn[i].d_un.d_val;

		if (dyn[i].d_tag == DT_SYMTAB)
			ret->symbols = in_memory(m, value);
		else if (dyn[i].d_tag == DT_STRTAB)
			ret->strings = in_memory(m, value);
		else if (dyn[i].d_tag == DT_STRSZ)
			ret->string_size = value;
		else if (dyn[i].d_tag == DT_HASH)
			ret->hash = in_memory(m, value);
		else if (dyn[i].d_tag == DT_GNU_HASH)
			ret->gnu_hash = in_memory(m, value);
	}
}

/* The last symbol of the fullest chain ends the table; 0 where it cannot be told. */
static uint64_t count_by_gnu_hash(const struct module *m, uint64_t table)
{
	uint32_t head[4], last = 0,
			  step; /* buckets, first symbol, words of the filter, its shift */
	_cleanup_(kp_freep) uint32_t *bucket = NULL;
	uint64_t buckets;

	if (!read_at(m, table, head, sizeof(head)) || head[0] > SYMBOLS_MAX || head[0] == 0)
		return 0;
	bucket = malloc(head[0] * sizeof(*bucket));
	buckets = table + sizeof(head) + (uint64_t)head[2] * 8;
	if (!bucket || !read_at(m, buckets, bucket, head[0] * sizeof(*bucket)))
		return 0;
	for (uint32_t i = 0; i < head[0]; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < head[1])
		return head[1];
	for (uint32_t i = 0; i < CHAIN_MAX && last < SYMBOLS_MAX; i++, last++) {
		uint64_t link = buckets + ((uint64_t)head[0] + (last - head[1])) * 4;

		if (!read_at(m, link, &step, sizeof(step)))
			return 0;
		if (step & 1)
			return last + 1;
	}
	return 0;
}

static uint64_t count_symbols(const struct module *m, const struct dynamic *d)
{
	uint32_t hash[2] = { 0, 0 };

	if (d->hash && read_at(m, d->hash, hash, sizeof(hash)))
		return hash[1];
	return d->gnu_hash ? count_by_gnu_hash(m, d->gnu_hash) : 0;
}

static int read_symbols(struct module *m, const struct dynamic *d, struct kp_err *err)
{
	uint64_t count = count_symbols(m, d);

	if (!d->symbols || !d->strings || !count || count > SYMBOLS_MAX || !d->string_size ||
	    d->string_size > STRINGS_MAX)
		return 0;
	m->symbol = malloc(count * sizeof(*m->symbol));
	m->string = malloc(d->string_size);
	if (!m->symbol || !m->string)
		return kp_fail_nomem(err);
	if (!read_at(m, d->symbols, m->symbol, count * sizeof(*m->symbol)) ||
	    !read_at(m, d->strings, m->string, d->string_size))
		return 0;
	m->string[d->string_size - 1] = '\0';
	m->symbols = count;
	m->string_size = d->string_size;
	return 0;
}

/* ---- the file that is made of it ---- */

enum { NAME_TEXT = 1, NAME_DYNSYM = 7, NAME_DYNSTR = 15, NAME_SHSTRTAB = 23 };

static const char names[40] = "\0.text\0.dynsym\0.dynstr\0.shstrtab";

struct note {
	Elf64_Nhdr head;
	char owner[4];
	uint8_t id[BUILD_ID_MAX];
};

/* Offsets in the file; what has a section has none before the others are known. */
struct layout {
	size_t phdrs, note, symbols, strings, names, sections, end;
	unsigned phdr_count, text_count;
};

static bool is_text(const Elf64_Phdr *phdr)
{
	return phdr->p_type == PT_LOAD && (phdr->p_flags & PF_X);
}

static struct layout lay_out(const struct module *m)
{
	struct layout l = { .phdrs = sizeof(Elf64_Ehdr), .phdr_count = 1 };

	for (unsigned i = 0; i < m->ehdr.e_phnum; i++) {
		l.phdr_count += m->phdr[i].p_type == PT_LOAD;
		l.text_count += is_text(&m->phdr[i]);
	}
	l.note = l.phdrs + l.phdr_count * sizeof(Elf64_Phdr);
	l.symbols = l.note + sizeof(struct note);
	l.strings = l.symbols + m->symbols * sizeof(Elf64_Sym);
	l.names = l.strings + m->string_size;
	l.sections = (l.names + sizeof(names) + 7) & ~(size_t)7;
	l.end = l.sections + (4 + l.text_count) * sizeof(Elf64_Shdr);
	return l;
}

/* The number of the section that has the symbol. Without one it is not used. */
static uint16_t section_of(const struct module *m, const Elf64_Sym *symbol)
{
	uint16_t number = 0;

	for (unsigned i = 0; symbol->st_shndx != SHN_UNDEF && i < m->ehdr.e_phnum; i++) {
		const Elf64_Phdr *p = &m->phdr[i];

		if (!is_text(p))
			continue;
		number++;
		if (symbol->st_value >= p->p_vaddr && symbol->st_value - p->p_vaddr < p->p_memsz)
			return number;
	}
	return SHN_UNDEF;
}

static void put_segments(const struct module *m, const struct layout *l, uint8_t *file)
{
	Elf64_Phdr note = {
		.p_type = PT_NOTE,
		.p_offset = l->note,
		.p_filesz = offsetof(struct note, id) + ((m->build_id_len + 3u) & ~3u),
		.p_align = 4,
	};
	uint8_t *at = file + l->phdrs;

	for (unsigned i = 0; i < m->ehdr.e_phnum; i++) {
		if (m->phdr[i].p_type != PT_LOAD)
			continue;
		memcpy(at, &m->phdr[i], sizeof(m->phdr[i]));
		at += sizeof(m->phdr[i]);
	}
	if (!m->build_id_len)
		note.p_type = PT_NULL;
	memcpy(at, &note, sizeof(note));
}

static void put_note(const struct module *m, const struct layout *l, uint8_t *file)
{
	struct note note = {
		.head = { .n_namesz = 4, .n_descsz = m->build_id_len, .n_type = NT_GNU_BUILD_ID },
		.owner = "GNU",
	};

	memcpy(note.id, m->build_id, m->build_id_len);
	memcpy(file + l->note, &note, sizeof(note));
}

static void put_sections(const struct module *m, const struct layout *l, uint8_t *file)
{
	Elf64_Shdr *shdr = (Elf64_Shdr *)(void *)(file + l->sections) + 1; /* the first is empty */

	for (unsigned i = 0; i < m->ehdr.e_phnum; i++)
		if (is_text(&m->phdr[i]))
			*shdr++ = (Elf64_Shdr){
				.sh_name = NAME_TEXT,
				.sh_type = SHT_NOBITS,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				.sh_addr = m->phdr[i].p_vaddr,
				.sh_offset = m->phdr[i].p_offset,
				.sh_size = m->phdr[i].p_memsz,
			};
	*shdr++ = (Elf64_Shdr){
		.sh_name = NAME_DYNSYM,
		.sh_type = SHT_DYNSYM,
		.sh_offset = l->symbols,
		.sh_size = m->symbols * sizeof(Elf64_Sym),
		.sh_link = l->text_count + 2,
		.sh_entsize = sizeof(Elf64_Sym),
	};
	*shdr++ = (Elf64_Shdr){
		.sh_name = NAME_DYNSTR,
		.sh_type = SHT_STRTAB,
		.sh_offset = l->strings,
		.sh_size = m->string_size,
	};
	*shdr = (Elf64_Shdr){
		.sh_name = NAME_SHSTRTAB,
		.sh_type = SHT_STRTAB,
		.sh_offset = l->names,
		.sh_size = sizeof(names),
	};
}

static void put_symbols(const struct module *m, const struct layout *l, uint8_t *file)
{
	for (uint64_t i = 0; i < m->symbols; i++)
		m->symbol[i].st_shndx = section_of(m, &m->symbol[i]);
	if (m->symbols)
		memcpy(file + l->symbols, m->symbol, m->symbols * sizeof(Elf64_Sym));
	if (m->string_size)
		memcpy(file + l->strings, m->string, m->string_size);
	memcpy(file + l->names, names, sizeof(names));
}

static int make_file(const struct module *m, void **ret, size_t *ret_size, struct kp_err *err)
{
	struct layout l = lay_out(m);
	Elf64_Ehdr ehdr = m->ehdr;
	uint8_t *file = calloc(1, l.end);

	if (!file)
		return kp_fail_nomem(err);
	ehdr.e_phoff = l.phdrs;
	ehdr.e_phnum = (uint16_t)l.phdr_count;
	ehdr.e_shoff = l.sections;
	ehdr.e_shentsize = sizeof(Elf64_Shdr);
	ehdr.e_shnum = (uint16_t)(4 + l.text_count);
	ehdr.e_shstrndx = (uint16_t)(3 + l.text_count);
	memcpy(file, &ehdr, sizeof(ehdr));
	put_segments(m, &l, file);
	put_note(m, &l, file);
	put_symbols(m, &l, file);
	put_sections(m, &l, file);
	*ret = file;
	*ret_size = l.end;
	return 0;
}

int kp_memory_elf_read(pid_t pid, const struct kp_maps *maps, const struct kp_map *map, void **ret,
		       size_t *ret_size, struct kp_err *err)
{
	const struct kp_map *start = find_start(maps, map);
	_cleanup_(kp_module_deinit) struct module m = { .pid = pid };
	struct dynamic dynamic = { 0 };
	int r;

	if (!start || !read_headers(&m, start->start))
		return KP_MEMORY_ELF_NONE;
	for (unsigned i = 0; i < m.ehdr.e_phnum; i++) {
		if (m.phdr[i].p_type == PT_NOTE && !m.build_id_len)
			read_build_id(&m, &m.phdr[i]);
		else if (m.phdr[i].p_type == PT_DYNAMIC)
			read_dynamic(&m, &m.phdr[i], &dynamic);
	}
	r = read_symbols(&m, &dynamic, err);
	return r < 0 ? r : make_file(&m, ret, ret_size, err);
}
