/*
 * The procedure linkage table of a module: small pieces of code that jump to where a slot of the
 * global offset table points, one for each function that is called from another module (or chosen
 * at the start, IFUNC). No symbol names them; the relocation of the slot does.
 *
 * Known are the stubs that binutils, lld and mold write for x86-64, aarch64 and riscv64.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/symtab.h"

#include <stdint.h>

struct kp_plt;

/*
 * symtab: names the resolvers of functions that are chosen at the start, or NULL. Both must stay
 * as long as the result. A file without section headers, or of another CPU, has no stubs.
 */
int kp_plt_create(const struct kp_elf_file *file, const struct kp_symtab *symtab,
		  struct kp_plt **ret, struct kp_err *err);
void kp_plt_destroy(struct kp_plt *plt);

/* The name, as in the file, of what the stub at this address jumps to; NULL: it is in none. */
const char *kp_plt_find(const struct kp_plt *plt, uint64_t address);
