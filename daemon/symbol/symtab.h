/*
 * The symbol table of a module, indexed by address.
 *
 * Taken are functions (STT_FUNC, STT_GNU_IFUNC) and labels of assembly code (STT_NOTYPE) in
 * executable sections. A symbol with a size covers exactly that, as far as its section goes: an
 * address in a gap has no name rather than a wrong one. A symbol without size covers what is left
 * up to the next symbol or the end of its section, and nothing inside a symbol with a size.
 *
 * Of symbols with one address this one is taken: function before label, then global before weak
 * before local, then the shorter name, then the alphabetically first.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"

#include <stdint.h>

struct kp_symtab;

struct kp_symbol {
	uint64_t start, end; /* end == start: without size */
	const char *name; /* as in the file; valid as long as that is open */
};

struct kp_symtab_source {
	const struct kp_elf_file *file;
	uint32_t type; /* SHT_SYMTAB or SHT_DYNSYM */
};

/*
 * One table of all the sources' symbols; they are of one module, and their files must stay open.
 * A source without such a section adds nothing; one without section headers has, for SHT_DYNSYM,
 * what PT_DYNAMIC leads to, bounded by segments in place of sections.
 */
int kp_symtab_create(const struct kp_symtab_source *source, size_t count, struct kp_symtab **ret,
		     struct kp_err *err);
void kp_symtab_destroy(struct kp_symtab *symtab);

size_t kp_symtab_count(const struct kp_symtab *symtab);

/* The symbol that covers the address, or NULL. symtab may be NULL. */
const struct kp_symbol *kp_symtab_find(const struct kp_symtab *symtab, uint64_t address);
