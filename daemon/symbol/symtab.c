/* Symbols by address: see symtab.h. Runs in the daemon; trusts nothing that the table says. */
#include "daemon/symbol/symtab.h"

#include "common/cleanup.h"
#include "daemon/symbol/dynamic.h"
#include "daemon/symbol/rangemap.h"

#include <stdlib.h>
#include <string.h>

/*
 * So much of two names is compared. Names may share the bytes of one megabyte, thousands of them
 * at one address, and sorting looks at each many times.
 */
#define COMPARED_BYTES 1024

struct candidate {
	struct kp_symbol symbol;
	uint64_t section_end;
	uint32_t number; /* in the order of the tables */
	uint16_t name_len; /* COMPARED_BYTES: that or more */
	uint16_t preference; /* lower is better */
};

struct kp_symtab {
	struct kp_symbol *symbol; /* sorted by address, the preferred one of an address last */
	size_t count;
	struct kp_rangemap sized, unsized;
};

struct table {
	struct candidate *candidate;
	size_t count, capacity;
};

void kp_symtab_destroy(struct kp_symtab *symtab)
{
	if (!symtab)
		return;
	kp_rangemap_deinit(&symtab->sized);
	kp_rangemap_deinit(&symtab->unsized);
	free(symtab->symbol);
	free(symtab);
}

size_t kp_symtab_count(const struct kp_symtab *symtab)
{
	return symtab->count;
}

static Elf_Scn *section_of_type(const struct kp_elf_file *file, uint32_t type, GElf_Shdr *ret)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(file->elf, scn)))
		if (gelf_getshdr(scn, ret) && ret->sh_type == type && ret->sh_size > 0)
			return scn;
	return NULL;
}

/* The section numbers that do not fit into the symbols of this table, or NULL. */
static Elf_Data *section_numbers(const struct kp_elf_file *file, Elf_Scn *symbols)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(file->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_SYMTAB_SHNDX &&
		    shdr.sh_link == elf_ndxscn(symbols))
			return elf_getdata(scn, NULL);
	return NULL;
}

static unsigned preference_of(const GElf_Sym *sym)
{
	unsigned label = GELF_ST_TYPE(sym->st_info) == STT_NOTYPE;

	switch (GELF_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return label * 3;
	case STB_WEAK:
		return label * 3 + 1;
	default:
		return label * 3 + 2;
	}
}

static bool is_wanted(const GElf_Sym *sym, const char *name)
{
	switch (GELF_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return name && name[0];
	case STT_NOTYPE:
		/* not .L labels, nor "data from here" ($d, $x) on Arm and RISC-V */
		return name && name[0] && name[0] != '.' && name[0] != '$';
	default:
		return false;
	}
}

static int add(struct table *t, const struct candidate *c, struct kp_err *err)
{
	if (t->count == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 256;
		void *grown = reallocarray(t->candidate, capacity, sizeof(*t->candidate));

		if (!grown)
			return kp_fail_nomem(err);
		t->candidate = grown;
		t->capacity = capacity;
	}
	t->candidate[t->count++] = *c;
	return 0;
}

/* Bounds a symbol by its section; false if it is not in an executable one. */
static bool place(const struct kp_elf_file *file, const GElf_Sym *sym, GElf_Word number,
		  struct candidate *c)
{
	GElf_Shdr shdr;
	uint64_t left;

	if (sym->st_shndx != SHN_XINDEX)
		number = sym->st_shndx;
	if (number == SHN_UNDEF || (sym->st_shndx != SHN_XINDEX && number >= SHN_LORESERVE) ||
	    !gelf_getshdr(elf_getscn(file->elf, number), &shdr))
		return false;
	if (!(shdr.sh_flags & SHF_EXECINSTR) || !(shdr.sh_flags & SHF_ALLOC) ||
	    shdr.sh_addr > UINT64_MAX - shdr.sh_size || sym->st_value < shdr.sh_addr ||
	    sym->st_value - shdr.sh_addr >= shdr.sh_size)
		return false;
	c->section_end = shdr.sh_addr + shdr.sh_size;
	left = c->section_end - sym->st_value;
	c->symbol.start = sym->st_value;
	c->symbol.end = sym->st_value + (sym->st_size < left ? sym->st_size : left);
	return true;
}

/* Likewise by its segment, where there are no sections. */
static bool place_in_segment(const struct kp_elf_file *file, const GElf_Sym *sym,
			     struct candidate *c)
{
	for (size_t i = 0; sym->st_shndx != SHN_UNDEF && i < file->segment_count; i++) {
		const struct kp_elf_segment *s = &file->segment[i];
		uint64_t left = s->size - (sym->st_value - s->address);

		if (!s->executable || sym->st_value < s->address ||
		    sym->st_value - s->address >= s->size || left > UINT64_MAX - sym->st_value)
			continue;
		c->section_end = sym->st_value + left;
		c->symbol.start = sym->st_value;
		c->symbol.end = sym->st_value + (sym->st_size < left ? sym->st_size : left);
		return true;
	}
	return false;
}

/* Takes a symbol in, if it is a wanted one that has been placed. */
static int take(struct table *t, const GElf_Sym *sym, struct candidate *c, struct kp_err *err)
{
	c->preference = (uint16_t)preference_of(sym);
	c->name_len = (uint16_t)strnlen(c->symbol.name, COMPARED_BYTES);
	c->number = (uint32_t)t->count;
	return add(t, c, err);
}

static int collect_dynamic(const struct kp_elf_file *file, struct table *t, struct kp_err *err)
{
	struct kp_dynamic dynamic;
	GElf_Sym sym;
	int r = 0;

	if (!kp_dynamic_read(file, &dynamic))
		return 0;
	for (size_t i = 0; r == 0 && i < dynamic.count; i++) {
		struct candidate c = { 0 };

		if (!gelf_getsym(dynamic.symbols, (int)i, &sym) || !sym.st_value)
			continue;
		c.symbol.name = kp_dynamic_string(&dynamic, sym.st_name);
		if (is_wanted(&sym, c.symbol.name) && place_in_segment(file, &sym, &c))
			r = take(t, &sym, &c, err);
	}
	return r;
}

static int collect_section(const struct kp_elf_file *file, Elf_Scn *scn, size_t strings,
			   struct table *t, struct kp_err *err)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	Elf_Data *numbers = data ? section_numbers(file, scn) : NULL;
	size_t entry = gelf_fsize(file->elf, ELF_T_SYM, 1, EV_CURRENT);
	size_t count = data && entry ? data->d_size / entry : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count && i < INT32_MAX; i++) {
		struct candidate c = { 0 };
		GElf_Word number = SHN_UNDEF;
		GElf_Sym sym;

		if (!gelf_getsymshndx(data, numbers, (int)i, &sym, &number) || !sym.st_value)
			continue;
		c.symbol.name = elf_strptr(file->elf, strings, sym.st_name);
		if (is_wanted(&sym, c.symbol.name) && place(file, &sym, number, &c))
			r = take(t, &sym, &c, err);
	}
	return r;
}

static int collect(const struct kp_elf_file *file, uint32_t type, struct table *t,
		   struct kp_err *err)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = section_of_type(file, type, &shdr);

	if (scn)
		return collect_section(file, scn, shdr.sh_link, t, err);
	return type == SHT_DYNSYM ? collect_dynamic(file, t, err) : 0;
}

/* By address; of one address the preferred one last, since it is to lie on top. */
static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int order;

	if (x->symbol.start != y->symbol.start)
		return x->symbol.start < y->symbol.start ? -1 : 1;
	if (x->preference != y->preference)
		return x->preference > y->preference ? -1 : 1;
	if (x->name_len != y->name_len)
		return x->name_len > y->name_len ? -1 : 1;
	order = strncmp(y->symbol.name, x->symbol.name, COMPARED_BYTES);
	return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static int index_sized(struct kp_symtab *symtab, struct kp_err *err)
{
	for (size_t i = 0; i < symtab->count; i++) {
		struct kp_range range = {
			.start = symtab->symbol[i].start,
			.end = symtab->symbol[i].end,
			.rank = (uint32_t)i,
			.value = (uint32_t)i,
		};
		int r = kp_rangemap_add(&symtab->sized, &range, err);

		if (r < 0)
			return r;
	}
	return kp_rangemap_finish(&symtab->sized, err);
}

/* From back to front, so that the next higher symbol is known. */
static int index_unsized(struct kp_symtab *symtab, const struct table *t, struct kp_err *err)
{
	uint64_t here = UINT64_MAX, next = UINT64_MAX;

	for (size_t i = symtab->count; i-- > 0;) {
		const struct kp_symbol *s = &symtab->symbol[i];
		uint64_t section_end = t->candidate[i].section_end;
		struct kp_range range = { .start = s->start, .rank = i, .value = i };
		uint32_t cover;
		int r;

		if (s->start != here) {
			next = here;
			here = s->start;
		}
		if (s->end > s->start || kp_rangemap_find(&symtab->sized, s->start, &cover))
			continue;
		range.end = next < section_end ? next : section_end;
		r = kp_rangemap_add(&symtab->unsized, &range, err);
		if (r < 0)
			return r;
	}
	return kp_rangemap_finish(&symtab->unsized, err);
}

static int build(struct kp_symtab *symtab, struct table *t, struct kp_err *err)
{
	int r;

	if (t->count)
		qsort(t->candidate, t->count, sizeof(*t->candidate), compare);
	symtab->symbol = calloc(t->count ? t->count : 1, sizeof(*symtab->symbol));
	if (!symtab->symbol)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < t->count; i++)
		symtab->symbol[i] = t->candidate[i].symbol;
	symtab->count = t->count;
	r = index_sized(symtab, err);
	return r < 0 ? r : index_unsized(symtab, t, err);
}

int kp_symtab_create(const struct kp_symtab_source *source, size_t count, struct kp_symtab **ret,
		     struct kp_err *err)
{
	struct kp_symtab *symtab = calloc(1, sizeof(*symtab));
	struct table t = { 0 };
	int r = 0;

	if (!symtab)
		return kp_fail_nomem(err);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = collect(source[i].file, source[i].type, &t, err);
	if (r == 0)
		r = build(symtab, &t, err);
	free(t.candidate);
	if (r < 0) {
		kp_symtab_destroy(symtab);
		return r;
	}
	*ret = symtab;
	return 0;
}

const struct kp_symbol *kp_symtab_find(const struct kp_symtab *symtab, uint64_t address)
{
	uint32_t i;

	if (!symtab || (!kp_rangemap_find(&symtab->sized, address, &i) &&
			!kp_rangemap_find(&symtab->unsized, address, &i)))
		return NULL;
	return &symtab->symbol[i];
}
