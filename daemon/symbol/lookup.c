/*
 * Frames at an address: see lookup.h. Runs in the daemon.
 *
 * Names. DWARF's linkage name, demangled, if it is a mangled one. C has none (or an assembler name
 * such as __GI_fputs, where the plain name is the better one), and gcc leaves it out for C++
 * functions that are not visible outside their file: there the symbol at the function's entry
 * serves if it is the mangled form of the plain name, else the plain name. In a unit that is in Ada
 * the plain name is gnat's (pack__proc), shown with dots. Where DWARF is silent,
 * the symbol that covers the address; where there is none, what a stub there is for (plt.h).
 *
 * Lines. The line table gives the innermost frame's, and what was inlined gives the call site in
 * the frame around it.
 */
#include "daemon/symbol/lookup.h"

#include "common/cleanup.h"
#include "daemon/symbol/demangle.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
	const char *file;
	uint32_t line;
};

struct lookup {
	struct kp_module *module;
	struct kp_names *names;
	struct kp_unit *unit;
	struct kp_err *err;
};

/* A source path, made whole with the unit's directory and kept; NULL stays NULL. */
static int keep_path(struct lookup *l, const char *raw, const char **ret)
{
	_cleanup_(kp_freep) char *whole = NULL;
	Dwarf_Attribute attr;
	const char *dir;

	*ret = NULL;
	if (!raw)
		return 0;
	if (raw[0] != '/') {
		dir = dwarf_formstring(dwarf_attr(&l->unit->cu, DW_AT_comp_dir, &attr));
		if (dir && asprintf(&whole, "%s/%s", dir, raw) < 0) {
			whole = NULL;
			return kp_fail_nomem(l->err);
		}
	}
	return kp_names_text(l->names, whole ? whole : raw, ret, l->err);
}

/* True if shown is a demangled name of the function that DWARF calls plain ("foo<int>", "foo"). */
static bool agrees(const char *shown, const char *plain)
{
	size_t len = strcspn(plain, "<");

	if (len == 0 || strncmp(plain, "operator", 8) == 0)
		len = strlen(plain);
	return memmem(shown, strlen(shown), plain, len) != NULL;
}

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/* Without what a compiler appended for a clone (".cold", ".constprop.0"): as linkage names are. */
static int name_by_symbol(struct lookup *l, const struct kp_symbol *symbol, const char *plain,
			  struct kp_name *ret)
{
	_cleanup_(kp_freep) char *base = NULL;
	struct kp_name name;
	int r;

	if (!is_mangled(symbol->name))
		return 0;
	base = strndup(symbol->name, strcspn(symbol->name, "."));
	if (!base)
		return kp_fail_nomem(l->err);
	r = kp_names_function(l->names, base, &name, l->err);
	if (r == 0 && name.shown != name.system && agrees(name.shown, plain))
		*ret = name;
	return r;
}

static bool is_ada(const struct lookup *l)
{
	Dwarf_Die cu = l->unit->cu;

	switch (dwarf_srclang(&cu)) {
	case DW_LANG_Ada83:
	case DW_LANG_Ada95:
		return true;
	default:
		return false;
	}
}

/* The name as gnat encodes it, and as it was written where that can be told. */
static int name_in_ada(struct lookup *l, const char *encoded, struct kp_name *ret)
{
	_cleanup_(kp_freep) char *written = kp_demangle_ada(encoded);
	int r = kp_names_text(l->names, encoded, &ret->system, l->err);

	ret->shown = ret->system;
	return r == 0 && written ? kp_names_text(l->names, written, &ret->shown, l->err) : r;
}

static int name_by_plain(struct lookup *l, const struct kp_function *f, const char *plain,
			 const char *linkage, struct kp_name *ret)
{
	const struct kp_symbol *symbol = kp_symtab_find(l->module->symtab, f->entry);
	struct kp_name system;
	int r = 0;

	if (!linkage && !f->inlined && symbol && symbol->start == f->entry)
		r = name_by_symbol(l, symbol, plain, ret);
	if (r == 0 && !ret->shown)
		r = kp_names_function(l->names, plain, ret, l->err);
	if (r < 0 || !linkage)
		return r;
	r = kp_names_function(l->names, linkage, &system, l->err);
	ret->system = system.system;
	return r;
}

/* ret stays as it is where nothing gives a name. */
static int name_function(struct lookup *l, struct kp_function *f, struct kp_name *ret)
{
	const char *linkage = kp_function_linkage_name(f);
	const char *plain = kp_function_plain_name(f);
	const struct kp_symbol *symbol;

	if (linkage && !linkage[0])
		linkage = NULL;
	if (plain && plain[0] && is_ada(l))
		return name_in_ada(l, linkage ? linkage : plain, ret);
	if (linkage && (is_mangled(linkage) || !plain))
		return kp_names_function(l->names, linkage, ret, l->err);
	if (plain && plain[0])
		return name_by_plain(l, f, plain, linkage, ret);
	symbol = f->inlined ? NULL : kp_symtab_find(l->module->symtab, f->entry);
	return symbol ? kp_names_function(l->names, symbol->name, ret, l->err) : 0;
}

/* Fills in what is the same for all addresses of a function; once for each. */
static int describe(struct lookup *l, struct kp_function *f)
{
	struct kp_name name = { 0 };
	const char *decl, *call = NULL;
	int r = name_function(l, f, &name);

	kp_function_declaration(f, &decl, &f->decl_line);
	if (f->inlined)
		kp_function_call_site(f, &call, &f->call_line);
	if (r == 0)
		r = keep_path(l, decl, &f->decl_file);
	if (r == 0)
		r = keep_path(l, call, &f->call_file);
	if (r < 0)
		return r;
	f->name = name.shown;
	f->system_name = name.system;
	f->described = true;
	return 0;
}

static int by_symbol(struct lookup *l, const struct kp_symbol *symbol, struct place place,
		     struct kp_frame *ret)
{
	struct kp_name name;
	int r = kp_names_function(l->names, symbol->name, &name, l->err);

	if (r < 0)
		return r;
	*ret = (struct kp_frame){
		.name = name.shown,
		.system_name = name.system,
		.file = place.file,
		.line = place.line,
	};
	return 0;
}

/* From the innermost function outwards; frame has room for all of them and the symbol's. */
static int fill(struct lookup *l, struct kp_function *f, const struct kp_symbol *symbol,
		struct place place, struct kp_frame *frame, uint32_t *ret_count)
{
	bool closed = false; /* the out-of-line function is there */
	uint32_t n = 0;
	int r = 0;

	for (; f; f = kp_unit_parent(l->unit, f)) {
		if (!f->described)
			r = describe(l, f);
		if (r < 0)
			return r;
		if (f->name) {
			frame[n++] = (struct kp_frame){
				.name = f->name,
				.system_name = f->system_name,
				.file = place.file ? place.file : f->decl_file,
				.line = place.file ? place.line : 0,
				.start_line = f->decl_line,
				.inlined = f->inlined,
			};
			closed = !f->inlined;
		}
		place = (struct place){ f->call_file, f->call_line };
	}
	if (!closed && symbol) {
		r = by_symbol(l, symbol, place, &frame[n]);
		n++;
	}
	if (n)
		frame[n - 1].inlined = false;
	*ret_count = n;
	return r;
}

static int append(struct lookup *l, const char *name, const char *suffix, const char **ret)
{
	_cleanup_(kp_freep) char *whole = NULL;

	if (asprintf(&whole, "%s%s", name, suffix) < 0) {
		whole = NULL;
		return kp_fail_nomem(l->err);
	}
	return kp_names_text(l->names, whole, ret, l->err);
}

/* A stub that jumps to another module's function, which it is called after. */
static int by_stub(struct lookup *l, const char *target, struct kp_frame *ret)
{
	struct kp_name name;
	int r = kp_names_function(l->names, target, &name, l->err);

	if (r == 0)
		r = append(l, name.shown, "@plt", &ret->name);
	return r < 0 ? r : append(l, name.system, "@plt", &ret->system_name);
}

static uint32_t chain_len(const struct kp_unit *unit, const struct kp_function *f)
{
	uint32_t n = 0;

	for (; f; f = kp_unit_parent(unit, f))
		n++;
	return n;
}

int kp_lookup(struct kp_module *module, struct kp_names *names, struct kp_arena *arena,
	      uint64_t address, struct kp_frames *ret, struct kp_err *err)
{
	struct lookup l = { .module = module, .names = names, .err = err };
	const struct kp_symbol *symbol = kp_symtab_find(module->symtab, address);
	struct kp_function *f = NULL;
	struct place place = { 0 };
	struct kp_frame *frame;
	const char *file, *stub = NULL;
	int r = 0;

	if (module->dwarf)
		r = kp_dwarf_unit(module->dwarf, address, &l.unit, err);
	if (r < 0)
		return r;
	kp_module_note_missing(module);
	if (l.unit) {
		f = kp_unit_function(l.unit, address);
		if (kp_unit_line(l.unit, address, &file, &place.line))
			r = keep_path(&l, file, &place.file);
		if (r < 0)
			return r;
	}
	if (!f && !symbol)
		stub = kp_plt_find(module->plt, address);
	if (!f && !symbol && !stub)
		return 0;
	frame = kp_arena_alloc(arena, (chain_len(l.unit, f) + 1) * sizeof(*frame));
	if (!frame)
		return kp_fail_nomem(err);
	ret->frame = frame;
	ret->count = 1;
	if (stub)
		return by_stub(&l, stub, frame);
	return fill(&l, f, symbol, place, frame, &ret->count);
}
