/*
 * Stubs of the procedure linkage table: plt.h. Runs in the daemon; trusts neither code nor
 * relocations.
 *
 * What a stub is for is read from its code, as layouts are many (with and without a table for lazy
 * binding, with landing pads, of 8 and of 16 bytes): it loads or jumps through one slot. Where code
 * of a lazy table only pushes a number, that is the number of a relocation in .rela.plt.
 */
#include "daemon/symbol/plt.h"

#include "common/cleanup.h"
#include "daemon/symbol/rangemap.h"

#include <stdlib.h>
#include <string.h>

#define STUB_BYTES 16 /* where the section does not say */
#define STUB_BYTES_MAX 64

struct slot {
	uint64_t address;
	const char *name;
};

struct kp_plt {
	struct slot *slot; /* of the offset table, by address */
	size_t count, capacity;
	const char **pushed; /* names by their number in .rela.plt; NULL: none */
	size_t pushed_count;
	struct kp_rangemap stubs; /* value: index into name */
	const char **name;
	size_t name_count, name_capacity;
};

struct relocation_types {
	uint32_t function, data, chosen;
};

/* R_*_JUMP_SLOT, R_*_GLOB_DAT, R_*_IRELATIVE of elf.h. */
static bool relocation_types(unsigned machine, struct relocation_types *ret)
{
	switch (machine) {
	case EM_X86_64:
		*ret = (struct relocation_types){ R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT,
						  R_X86_64_IRELATIVE };
		return true;
	case EM_AARCH64:
		*ret = (struct relocation_types){ R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT,
						  R_AARCH64_IRELATIVE };
		return true;
	case EM_RISCV:
		*ret = (struct relocation_types){ R_RISCV_JUMP_SLOT, R_RISCV_64,
						  R_RISCV_IRELATIVE };
		return true;
	default:
		return false;
	}
}

/* ---- slots ---- */

static int add_slot(struct kp_plt *plt, uint64_t address, const char *name, struct kp_err *err)
{
	if (plt->count == plt->capacity) {
		size_t capacity = plt->capacity ? plt->capacity * 2 : 64;
		void *grown = reallocarray(plt->slot, capacity, sizeof(*plt->slot));

		if (!grown)
			return kp_fail_nomem(err);
		plt->slot = grown;
		plt->capacity = capacity;
	}
	plt->slot[plt->count++] = (struct slot){ address, name };
	return 0;
}

static const char *name_of(const struct kp_elf_file *file, const struct kp_symtab *symtab,
			   const struct relocation_types *types, const GElf_Shdr *shdr,
			   const GElf_Rela *rela)
{
	uint32_t type = (uint32_t)GELF_R_TYPE(rela->r_info);
	Elf_Scn *symbols = elf_getscn(file->elf, shdr->sh_link);
	Elf_Data *data;
	const char *name;
	GElf_Shdr of;
	GElf_Sym sym;

	if (type == types->chosen) {
		const struct kp_symbol *resolver = kp_symtab_find(symtab, (uint64_t)rela->r_addend);

		return resolver ? resolver->name : NULL;
	}
	if ((type != types->function && type != types->data) || !symbols ||
	    !gelf_getshdr(symbols, &of))
		return NULL;
	data = elf_getdata(symbols, NULL);
	if (!data || !gelf_getsym(data, (int)GELF_R_SYM(rela->r_info), &sym))
		return NULL;
	name = elf_strptr(file->elf, of.sh_link, sym.st_name);
	return name && name[0] ? name : NULL;
}

static int read_relocations(struct kp_plt *plt, const struct kp_elf_file *file,
			    const struct kp_symtab *symtab, const struct relocation_types *types,
			    Elf_Scn *scn, const GElf_Shdr *shdr, bool pushed, struct kp_err *err)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t entry = gelf_fsize(file->elf, ELF_T_RELA, 1, EV_CURRENT);
	size_t count = data && entry ? data->d_size / entry : 0;
	int r = 0;

	if (pushed && count && !plt->pushed) {
		plt->pushed = calloc(count, sizeof(*plt->pushed));
		if (!plt->pushed)
			return kp_fail_nomem(err);
		plt->pushed_count = count;
	}
	for (size_t i = 0; i < count && i < INT32_MAX && r == 0; i++) {
		const char *name;
		GElf_Rela rela;

		if (!gelf_getrela(data, (int)i, &rela))
			continue;
		name = name_of(file, symtab, types, shdr, &rela);
		if (!name)
			continue;
		if (pushed && i < plt->pushed_count)
			plt->pushed[i] = name;
		r = add_slot(plt, rela.r_offset, name, err);
	}
	return r;
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static const char *find_slot(const struct kp_plt *plt, uint64_t address)
{
	struct slot key = { .address = address };
	const struct slot *found =
		plt->count ? bsearch(&key, plt->slot, plt->count, sizeof(key), compare_slots)
			   : NULL;

	return found ? found->name : NULL;
}

/* ---- code ---- */

static uint32_t word_at(const uint8_t *code)
{
	return (uint32_t)code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 |
	       (uint32_t)code[3] << 24;
}

/* jmp *slot(%rip), or push $number; in front of them perhaps endbr64 or bnd. */
static const char *stub_x86_64(const struct kp_plt *plt, const uint8_t *code, size_t size,
			       uint64_t address)
{
	for (size_t i = 0; i + 6 <= size && i < 6; i++)
		if (code[i] == 0xff && code[i + 1] == 0x25)
			return find_slot(plt, address + i + 6 +
						      (uint64_t)(int32_t)word_at(code + i + 2));
	for (size_t i = 0; i + 5 <= size && i <= 4; i += 4)
		if (code[i] == 0x68 && word_at(code + i + 1) < plt->pushed_count)
			return plt->pushed[word_at(code + i + 1)];
	return NULL;
}

/* adrp x16, page of the slot; ldr x17, [x16, #offset in it]. */
static const char *stub_aarch64(const struct kp_plt *plt, const uint8_t *code, size_t size,
				uint64_t address)
{
	for (size_t i = 0; i + 8 <= size && i <= 4; i += 4) {
		uint32_t adrp = word_at(code + i), ldr = word_at(code + i + 4);
		uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);

		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		if (pages & 0x100000)
			pages |= ~UINT64_C(0x1fffff);
		return find_slot(plt, ((address + i) & ~UINT64_C(0xfff)) + (pages << 12) +
					      (ldr >> 10 & 0xfff) * 8);
	}
	return NULL;
}

/* auipc t3, high part; ld t3, low part(t3). */
static const char *stub_riscv64(const struct kp_plt *plt, const uint8_t *code, size_t size,
				uint64_t address)
{
	uint32_t auipc, ld;

	if (size < 8)
		return NULL;
	auipc = word_at(code);
	ld = word_at(code + 4);
	if ((auipc & 0xfff) != 0xe17 || (ld & 0xfffff) != 0xe3e03)
		return NULL;
	return find_slot(plt, address + (uint64_t)(int32_t)(auipc & 0xfffff000) +
				      (uint64_t)((int32_t)ld >> 20));
}

typedef const char *(*stub_fn)(const struct kp_plt *plt, const uint8_t *code, size_t size,
			       uint64_t address);

static stub_fn stub_of(unsigned machine)
{
	switch (machine) {
	case EM_X86_64:
		return stub_x86_64;
	case EM_AARCH64:
		return stub_aarch64;
	default:
		return stub_riscv64;
	}
}

static int add_stub(struct kp_plt *plt, uint64_t start, uint64_t size, const char *name,
		    struct kp_err *err)
{
	struct kp_range range = { .start = start,
				  .end = start + size,
				  .value = (uint32_t)plt->name_count };

	if (plt->name_count == plt->name_capacity) {
		size_t capacity = plt->name_capacity ? plt->name_capacity * 2 : 64;
		void *grown = reallocarray(plt->name, capacity, sizeof(*plt->name));

		if (!grown)
			return kp_fail_nomem(err);
		plt->name = grown;
		plt->name_capacity = capacity;
	}
	plt->name[plt->name_count++] = name;
	return kp_rangemap_add(&plt->stubs, &range, err);
}

static int read_stubs(struct kp_plt *plt, unsigned machine, Elf_Scn *scn, const GElf_Shdr *shdr,
		      struct kp_err *err)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	stub_fn stub = stub_of(machine);
	size_t bytes = shdr->sh_entsize ? shdr->sh_entsize : STUB_BYTES, skip = 0;
	int r = 0;

	if (!data || !data->d_buf || bytes < 4 || bytes > STUB_BYTES_MAX)
		return 0;
	/* On these two the first stub, of another size, binds lazily. */
	if (machine != EM_X86_64) {
		bytes = STUB_BYTES;
		skip = data->d_size % bytes;
	}
	for (size_t at = skip; at + bytes <= data->d_size && r == 0; at += bytes) {
		uint64_t address = shdr->sh_addr + at;
		const char *name = stub(plt, (const uint8_t *)data->d_buf + at, bytes, address);

		if (name)
			r = add_stub(plt, address, bytes, name, err);
	}
	return r;
}

/* ---- all of it ---- */

/* Which sections, by what they are called. */
static bool is_plt(const char *name, const GElf_Shdr *shdr)
{
	return shdr->sh_type == SHT_PROGBITS && (shdr->sh_flags & SHF_EXECINSTR) &&
	       (strcmp(name, ".plt") == 0 || strncmp(name, ".plt.", 5) == 0 ||
		strcmp(name, ".iplt") == 0);
}

static int read_sections(struct kp_plt *plt, const struct kp_elf_file *file,
			 const struct kp_symtab *symtab, bool code, struct kp_err *err)
{
	struct relocation_types types;
	Elf_Scn *scn = NULL;
	GElf_Ehdr ehdr;
	size_t strings;
	int r = 0;

	if (!gelf_getehdr(file->elf, &ehdr) || !relocation_types(ehdr.e_machine, &types) ||
	    elf_getshdrstrndx(file->elf, &strings) < 0)
		return 0;
	while (r == 0 && (scn = elf_nextscn(file->elf, scn))) {
		const char *name;
		GElf_Shdr shdr;

		if (!gelf_getshdr(scn, &shdr))
			continue;
		name = elf_strptr(file->elf, strings, shdr.sh_name);
		if (!name)
			continue;
		if (code && is_plt(name, &shdr))
			r = read_stubs(plt, ehdr.e_machine, scn, &shdr, err);
		if (!code && shdr.sh_type == SHT_RELA && (shdr.sh_flags & SHF_ALLOC))
			r = read_relocations(plt, file, symtab, &types, scn, &shdr,
					     strcmp(name, ".rela.plt") == 0, err);
	}
	return r;
}

int kp_plt_create(const struct kp_elf_file *file, const struct kp_symtab *symtab,
		  struct kp_plt **ret, struct kp_err *err)
{
	struct kp_plt *plt = calloc(1, sizeof(*plt));
	int r;

	if (!plt)
		return kp_fail_nomem(err);
	r = read_sections(plt, file, symtab, false, err);
	if (plt->count)
		qsort(plt->slot, plt->count, sizeof(*plt->slot), compare_slots);
	if (r == 0)
		r = read_sections(plt, file, symtab, true, err);
	if (r == 0)
		r = kp_rangemap_finish(&plt->stubs, err);
	if (r < 0) {
		kp_plt_destroy(plt);
		return r;
	}
	*ret = plt;
	return 0;
}

void kp_plt_destroy(struct kp_plt *plt)
{
	if (!plt)
		return;
	kp_rangemap_deinit(&plt->stubs);
	free(plt->slot);
	free(plt->pushed);
	free(plt->name);
	free(plt);
}

const char *kp_plt_find(const struct kp_plt *plt, uint64_t address)
{
	uint32_t i;

	return plt && kp_rangemap_find(&plt->stubs, address, &i) ? plt->name[i] : NULL;
}
