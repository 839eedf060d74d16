/* Ranges and functions for flow.h: see undescribed.h. Runs in the daemon. */
#include "daemon/unwind/undescribed.h"

#include "daemon/unwind/bytes.h"
#include "daemon/unwind/go.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_MAX 256 /* executable ones; linkers make five */
/* Between functions there is padding: less than this is not looked at. */
#define RANGE_MIN 16
#define IMPORTS_MAX 64
/* Less code than this calls hardly any of them: not worth reading all relocations. */
#define IMPORTS_CODE_MIN 4096

/* Words that are filled with addresses of functions that do not return. */
struct imports {
	uint64_t slot[IMPORTS_MAX]; /* ascending */
	size_t count;
};

static int compare(const void *a, const void *b)
{
	const struct kp_image_part *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Sorted, without overlaps. */
static size_t find_sections(const struct kp_image *image, struct kp_image_part *section)
{
	size_t found = 0, n = 0;

	for (uint64_t at = 1; found < SECTIONS_MAX; at++) {
		if (!kp_image_code_section(image, &at, &section[found]))
			break;
		if (section[found].address + section[found].size > section[found].address)
			found++;
	}
	qsort(section, found, sizeof(*section), compare);
	for (size_t i = 0; i < found; i++)
		if (n == 0 || section[i].address >= section[n - 1].address + section[n - 1].size)
			section[n++] = section[i];
	return n;
}

/* What FDEs leave of a section. *at: the first FDE that may be of it, and then of the next one. */
static int add_section(struct kp_flow *flow, const struct kp_entries *entries,
		       const struct kp_image_part *section, size_t *at, uint64_t *bytes)
{
	uint64_t start = section->address, end = start + section->size;

	while (start < end) {
		uint64_t next = end, behind = end;
		int r = 0;

		while (*at < entries->fde_count && entries->fde[*at].end <= start)
			(*at)++;
		if (*at < entries->fde_count && entries->fde[*at].start < end) {
			next = entries->fde[*at].start;
			behind = entries->fde[*at].end;
		}
		if (next > start && next - start >= RANGE_MIN) {
			r = kp_flow_add_range(flow, start, next);
			*bytes += next - start;
		}
		if (r < 0)
			return r;
		start = behind;
	}
	return 0;
}

/* Parts of functions that compilers have moved away have symbols like functions: f.cold, f.cold.0 */
static bool is_part(const struct kp_image_part *names, uint32_t at)
{
	static const char cold[] = ".cold";
	const char *name = (const char *)names->data + at;
	size_t length;

	if (at >= names->size)
		return false;
	length = strnlen(name, names->size - at);
	return memmem(name, length, cold, sizeof(cold) - 1) != NULL;
}

static void add_symbols(struct kp_flow *flow, const struct kp_image *image, const char *table,
			const char *strings)
{
	struct kp_image_part symbols, names = { 0 };
	Elf64_Sym symbol;

	if (!kp_image_section(image, table, &symbols) || symbols.compressed)
		return;
	kp_image_section(image, strings, &names);
	for (size_t at = 0; symbols.size - at >= sizeof(symbol); at += sizeof(symbol)) {
		memcpy(&symbol, symbols.data + at, sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF ||
		    (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC &&
		     ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC))
			continue;
		if (kp_flow_has(flow, symbol.st_value))
			kp_flow_add_function(flow, symbol.st_value,
					     is_part(&names, symbol.st_name) ? KP_FLOW_PART
									     : KP_FLOW_NAMED);
	}
}

/*
 * Where the process, or its dynamic linker, begins. Of other files the linker may have written
 * anything there, so the code has to look like it: it clears the frame pointer (psABI 3.4.1).
 */
static void add_start(struct kp_flow *flow, const struct kp_image *image)
{
	static const uint8_t clear[][3] = { { 0x31, 0xed }, { 0x48, 0x31, 0xed } };
	struct kp_image_part code;
	bool clears = false;

	if (!image->entry || !kp_flow_has(flow, image->entry) ||
	    !kp_image_at(image, image->entry, &code))
		return;
	if (code.size >= 3)
		clears = memcmp(code.data, clear[0], 2) == 0 || memcmp(code.data, clear[1], 3) == 0;
	if (clears || image->is_program)
		kp_flow_add_function(flow, image->entry, KP_FLOW_STARTED);
}

/* Functions of libraries that do not return; of C++'s, those that compilers call by themselves. */
static bool is_endless(const char *name, size_t length)
{
	static const char *const names[] = {
		"abort",
		"exit",
		"_exit",
		"_Exit",
		"quick_exit",
		"pthread_exit",
		"longjmp",
		"_longjmp",
		"siglongjmp",
		"__longjmp_chk",
		"__stack_chk_fail",
		"__chk_fail",
		"__assert_fail",
		"err",
		"errx",
		"verr",
		"verrx",
		"__cxa_throw",
		"__cxa_rethrow",
		"__cxa_bad_cast",
		"_Unwind_Resume",
		"_ZSt9terminatev",
		"__cxa_bad_typeid",
		"__cxa_throw_bad_array_new_length",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
			return true;
	/* std::__throw_... */
	return length > 4 && memcmp(name, "_ZSt", 4) == 0 && memmem(name, length, "__throw_", 8);
}

/* Whether the word at slot is filled with the address of such a function when it is loaded. */
static bool is_endless_slot(const struct imports *imports, uint64_t slot)
{
	size_t low = 0, high = imports->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (imports->slot[middle] < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low < imports->count && imports->slot[low] == slot;
}

static void add_imports(struct imports *imports, const struct kp_image *image, const char *table)
{
	struct kp_image_part relocations, symbols, names;
	Elf64_Rela rela;
	Elf64_Sym symbol;

	if (!kp_image_section(image, table, &relocations) || relocations.compressed ||
	    !kp_image_section(image, ".dynsym", &symbols) ||
	    !kp_image_section(image, ".dynstr", &names))
		return;
	for (size_t at = 0; relocations.size - at >= sizeof(rela); at += sizeof(rela)) {
		const char *name;
		uint64_t n;

		memcpy(&rela, relocations.data + at, sizeof(rela));
		n = ELF64_R_SYM(rela.r_info);
		if ((ELF64_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
		     ELF64_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
		    n >= symbols.size / sizeof(symbol) || imports->count == IMPORTS_MAX)
			continue;
		memcpy(&symbol, symbols.data + n * sizeof(symbol), sizeof(symbol));
		if (symbol.st_name >= names.size)
			continue;
		name = (const char *)names.data + symbol.st_name;
		if (is_endless(name, strnlen(name, names.size - symbol.st_name)))
			imports->slot[imports->count++] = rela.r_offset;
	}
}

/* Entries of a PLT whose jump goes by such a word. */
static void add_endless(struct kp_flow *flow, const struct kp_image *image, const char *section,
			size_t entry_size, const struct imports *imports)
{
	static const uint8_t jump[] = { 0xff, 0x25 }; /* jmp *distance(%rip) */
	struct kp_image_part plt;

	if (!kp_image_section(image, section, &plt) || plt.compressed)
		return;
	for (size_t at = 0; plt.size - at >= entry_size; at += entry_size)
		for (size_t i = 0; i + sizeof(jump) + 4 <= entry_size; i++) {
			const uint8_t *code = plt.data + at + i;
			int32_t distance;

			if (memcmp(code, jump, sizeof(jump)) != 0)
				continue;
			memcpy(&distance, code + sizeof(jump), sizeof(distance));
			if (is_endless_slot(imports, plt.address + at + i + sizeof(jump) + 4 +
							     (uint64_t)(int64_t)distance))
				kp_flow_add_endless(flow, plt.address + at);
			break;
		}
}

static int compare_slots(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* What of other modules does not return. Their own code is not looked at. */
static void add_other_modules(struct kp_flow *flow, const struct kp_image *image)
{
	struct imports imports = { .count = 0 };

	add_imports(&imports, image, ".rela.plt");
	add_imports(&imports, image, ".rela.dyn");
	qsort(imports.slot, imports.count, sizeof(*imports.slot), compare_slots);
	add_endless(flow, image, ".plt", 16, &imports);
	add_endless(flow, image, ".plt.sec", 16, &imports);
	add_endless(flow, image, ".plt.got", 8, &imports);
}

static int read_code(const struct kp_entries *entries, struct kp_flow *flow)
{
	struct kp_image_part section[SECTIONS_MAX];
	size_t count = find_sections(entries->image, section), fde = 0;
	uint64_t bytes = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_section(flow, entries, &section[i], &fde, &bytes);
	if (r < 0 || bytes == 0)
		return r;
	add_start(flow, entries->image);
	add_symbols(flow, entries->image, ".symtab", ".strtab");
	add_symbols(flow, entries->image, ".dynsym", ".dynstr");
	if (bytes >= IMPORTS_CODE_MIN)
		add_other_modules(flow, entries->image);
	return kp_flow_run(flow);
}

int kp_undescribed_read(const struct kp_entries *entries, struct kp_flow **ret)
{
	*ret = NULL;
	if (entries->image->arch->elf_machine != EM_X86_64 || kp_go_made(entries->image))
		return 0;
	*ret = kp_flow_create(entries->image);
	if (!*ret)
		return -KP_ENOMEM;
	return read_code(entries, *ret);
}
