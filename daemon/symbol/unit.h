/*
 * One compilation unit of DWARF, indexed when it is first touched: which function, and what was
 * inlined into it, lies at an address, and which source line.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/lineprog.h"
#include "daemon/symbol/rangemap.h"

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A subprogram, or one place where one was inlined. */
struct kp_function {
	Dwarf_Die die;
	uint64_t entry; /* where it starts; its cold part may lie below */
	uint32_t parent; /* inlined: 1 + index, always lower, of the one around it; else 0 */
	bool inlined;
	bool described; /* by the owner of the frames: the rest is filled in */
	const char *name, *system_name; /* NULL: DWARF does not say */
	const char *decl_file, *call_file;
	uint32_t decl_line, call_line;
};

/* Empty when zeroed but for cu. */
struct kp_unit {
	Dwarf_Die cu;
	bool loaded;
	struct kp_rangemap map; /* address -> index of function */
	struct kp_function *function;
	size_t count, capacity;
	Dwarf_Lines *lines; /* by address; NULL without */
	size_t line_count;
	struct kp_lineprog *program; /* in place of lines, where these are mixed up; or NULL */
};

void kp_unit_deinit(struct kp_unit *unit);

/*
 * Reads the unit's tree of DIEs once. root is the unit's DIE, or that of its split half. Code that
 * is not in the module's text (functions that the linker dropped, which stay in DWARF at address
 * 0) is left out. Damage ends the reading early; < 0 only when out of memory.
 */
int kp_unit_load(struct kp_unit *unit, Dwarf_Die *root, const struct kp_elf_file *module,
		 struct kp_err *err);

/* The innermost function at the address, or NULL. */
struct kp_function *kp_unit_function(const struct kp_unit *unit, uint64_t address);

/* The function into which f was inlined, or NULL. */
struct kp_function *kp_unit_parent(const struct kp_unit *unit, const struct kp_function *f);

/* The source line at the address; false if the line table does not cover it. Line 0: unknown. */
bool kp_unit_line(const struct kp_unit *unit, uint64_t address, const char **ret_file,
		  uint32_t *ret_line);

/* Reads the name as DWARF has it, preferably the linkage name; NULL if it has none. */
const char *kp_function_linkage_name(struct kp_function *f);
const char *kp_function_plain_name(struct kp_function *f);

/* Reads where f was inlined: file (may be NULL) and line (0 unknown). */
void kp_function_call_site(struct kp_function *f, const char **ret_file, uint32_t *ret_line);

/* Reads where f is declared, likewise. */
void kp_function_declaration(struct kp_function *f, const char **ret_file, uint32_t *ret_line);
