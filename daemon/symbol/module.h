/*
 * One module that the symbolizer knows: what the raw profile says of it and, while it is open,
 * its files and indexes.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/answer_cache.h"
#include "daemon/symbol/dwarf.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/plt.h"
#include "daemon/symbol/symbolizer.h"
#include "daemon/symbol/symtab.h"

#include <stdbool.h>

struct kp_module {
	struct kp_module_file known; /* path and build_id are the module's own copies */
	char note[512]; /* "": nothing to say */

	bool found; /* the files are */
	bool alt_missing; /* one is named, but not there */
	bool open; /* found, and the rest made */
	bool mapped; /* file is what was in the target's memory */
	struct kp_elf_file
		*file; /* NULL: cannot be used, the note says why; the rest is NULL too */
	struct kp_elf_file *debug, *alt; /* separate debug file, and what dwz moved out; or NULL */
	struct kp_elf_file *mini; /* what it has packed in itself, where that is needed; or NULL */
	struct kp_symtab *symtab; /* or NULL */
	struct kp_plt *plt; /* or NULL */
	struct kp_dwarf *dwarf; /* or NULL */
};

int kp_module_create(const struct kp_module_file *known, struct kp_module **ret,
		     struct kp_err *err);
void kp_module_destroy(struct kp_module *module);

bool kp_module_is(const struct kp_module *module, const struct kp_module_file *known);

/* Finds the files, and notes those that it does not find. < 0 only when out of memory. */
int kp_module_find(struct kp_module *module, const char *sysroot, const char *const *debug_dirs,
		   struct kp_err *err);

/*
 * What the module's names are made of, once its files are found. build_id_len 0: there is nothing
 * to know them by again, or no reason to believe what the files say of themselves.
 */
void kp_module_source(const struct kp_module *module, struct kp_answer_source *ret);

/* Finds and indexes what there is, and notes what there is not. < 0 only when out of memory. */
int kp_module_open(struct kp_module *module, const char *sysroot, const char *const *debug_dirs,
		   struct kp_err *err);

/* What a module whose files are found would need to have names and lines. */
struct kp_module_lack {
	bool executable; /* its own file; else debug information */
	const uint8_t *id; /* build id of what is missing; lives until the module is closed */
	size_t id_len;
};

/* False: it has all, or there is no build id to look for more by. */
bool kp_module_lacks(const struct kp_module *module, struct kp_module_lack *ret);

/* Notes what turned out to be missing while the module was read. */
void kp_module_note_missing(struct kp_module *module);

/* Files and indexes go, the note stays. */
void kp_module_close(struct kp_module *module);
