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
