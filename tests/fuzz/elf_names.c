/*
 * What one ELF file says of names and lines, as far as we read it ourselves: symbols with and without
 * section headers (daemon/symbol/symtab.h, dynamic.h), stubs (plt.h), line number programs
 * (lineprog.h). An input is the file.
 */
#include "common/cleanup.h"
#include "daemon/symbol/lineprog.h"
#include "daemon/symbol/plt.h"
#include "daemon/symbol/symtab.h"
#include "tests/fuzz/fuzz.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define UNITS_MAX 16
#define PLACES 64

static void check(int condition)
{
	if (!condition)
		abort();
}

/* Addresses all over the segments. */
static uint64_t place(const struct kp_elf_file *file, unsigned i)
{
	const struct kp_elf_segment *s = &file->segment[i % file->segment_count];

	return s->address + s->size / PLACES * i;
}

static void look_up(const struct kp_elf_file *file, const struct kp_symtab *symtab,
		    const struct kp_plt *plt)
{
	for (unsigned i = 0; file->segment_count && i < PLACES; i++) {
		uint64_t address = place(file, i);
		const struct kp_symbol *symbol = kp_symtab_find(symtab, address);
		const char *stub = kp_plt_find(plt, address);

		if (symbol) {
			check(symbol->start <= address && strlen(symbol->name) > 0);
			check(symbol->end == symbol->start || address < symbol->end);
		}
		if (stub)
			check(strlen(stub) > 0);
	}
}

static void read_symbols(const struct kp_elf_file *file)
{
	struct kp_symtab_source source[] = { { file, SHT_SYMTAB }, { file, SHT_DYNSYM } };
	struct kp_symtab *symtab;
	struct kp_plt *plt;

	check(kp_symtab_create(source, 2, &symtab, NULL) == 0);
	check(kp_plt_create(file, symtab, &plt, NULL) == 0);
	look_up(file, symtab, plt);
	kp_plt_destroy(plt);
	kp_symtab_destroy(symtab);
}

static void read_lines(const struct kp_elf_file *file)
{
	Dwarf *dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	for (unsigned i = 0; dwarf && i < UNITS_MAX; i++) {
		struct kp_lineprog *lines;

		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL) != 0)
			break;
		check(kp_lineprog_read(&die, file, &lines, NULL) == 0);
		for (unsigned n = 0; lines && file->segment_count && n < PLACES; n++) {
			uint64_t address = place(file, n);
			const struct kp_line_row *row = kp_lineprog_find(lines, address);

			check(!row || row->address <= address);
		}
		kp_lineprog_destroy(lines);
	}
	dwarf_end(dwarf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kp_elf_file_destroyp) struct kp_elf_file *file = NULL;

	if (kp_elf_file_open_image(data, size, "file", &file, NULL) < 0)
		return 0;
	read_symbols(file);
	read_lines(file);
	return 0;
}
