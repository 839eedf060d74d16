/*
 * The index of DWARF's units: see dwarf.h. Runs in the daemon. It is made from the units
 * themselves: .debug_aranges is only a hint, which clang does not write at all.
 */
#include "daemon/symbol/dwarf.h"

#include "common/cleanup.h"
#include "daemon/symbol/debugfile.h"
#include "daemon/symbol/split.h"
#include "daemon/symbol/splitfile.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define UNIT_RANGES_MAX ((size_t)1 << 24) /* more than any module has; against bad files */

/* What the DIEs of a split unit lie in. */
struct half {
	struct kp_elf_file *file; /* NULL: the package */
	struct kp_split *split;
};

struct kp_dwarf {
	Dwarf *dwarf, *alt;
	const struct kp_elf_file *debug, *module;
	const char *const *dirs;
	struct kp_elf_file *package; /* NULL: not there, or not sought yet */
	bool package_sought;
	struct half *half;
	size_t half_count;
	char note[512]; /* "": nothing to say */
	struct kp_unit *unit;
	size_t count, capacity;
	struct kp_rangemap map; /* address -> index of unit */
};

void kp_dwarf_close(struct kp_dwarf *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++)
		kp_unit_deinit(&d->unit[i]);
	free(d->unit);
	kp_rangemap_deinit(&d->map);
	for (size_t i = 0; i < d->half_count; i++) {
		kp_split_close(d->half[i].split);
		kp_elf_file_destroy(d->half[i].file);
	}
	free(d->half);
	kp_elf_file_destroy(d->package);
	dwarf_end(d->dwarf);
	dwarf_end(d->alt);
	free(d);
}

static int add_range(struct kp_dwarf *d, uint64_t start, uint64_t end, struct kp_err *err)
{
	struct kp_range range = { .start = start, .end = end, .value = (uint32_t)d->count };

	if (d->map.count >= UNIT_RANGES_MAX || !kp_elf_file_is_text(d->module, start))
		return 0;
	return kp_rangemap_add(&d->map, &range, err);
}

/* As the unit's DIE says. > 0: it says nothing. */
static int add_stated_ranges(struct kp_dwarf *d, Dwarf_Die *cu, struct kp_err *err)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	bool any = false;

	while ((at = dwarf_ranges(cu, at, &base, &start, &end)) > 0) {
		int r = add_range(d, start, end, err);

		if (r < 0)
			return r;
		any = true;
	}
	return !any;
}

static const char *cu_string(Dwarf_Die *cu, unsigned name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr(cu, name, &attr));
}

/* Keeps what a unit's DIEs lie in. */
static int keep_half(struct kp_dwarf *d, struct kp_elf_file *file, struct kp_split *split,
		     struct kp_err *err)
{
	struct half *grown;

	if (!(d->half_count & (d->half_count + 1))) { /* doubles: 1, 3, 7, ... */
		grown = reallocarray(d->half, 2 * d->half_count + 1, sizeof(*grown));
		if (!grown) {
			kp_split_close(split);
			return kp_fail_nomem(err);
		}
		d->half = grown;
	}
	d->half[d->half_count++] = (struct half){ file, split };
	return 0;
}

/* 0: taken, with owner if there is one; > 0: it is not in there. */
static int take_half(struct kp_dwarf *d, const struct kp_elf_file *file, struct kp_elf_file *owner,
		     Dwarf_Die *cu, Dwarf_Die *ret, struct kp_err *err)
{
	struct kp_split_pieces pieces;
	struct kp_split *split;
	uint64_t id;
	int r;

	if (!kp_split_id(cu, &id))
		return KP_SPLIT_NONE_HERE;
	r = kp_splitfile_pieces(file, id, &pieces, err);
	if (r == 0)
		r = kp_split_open(d->debug, cu, &pieces, &split, ret, err);
	return r == 0 ? keep_half(d, owner, split, err) : r;
}

static int find_package_of(struct kp_dwarf *d, const struct kp_elf_file *file, struct kp_err *err)
{
	char *path;

	for (size_t i = 0; !d->package && (path = kp_debugfile_package_path(file, d->dirs, i));
	     i++) {
		struct kp_err why;
		int r = access(path, R_OK) == 0 ? kp_elf_file_open(path, &d->package, &why) : 0;

		free(path);
		if (r == -KP_ENOMEM)
			return kp_fail_nomem(err);
	}
	return 0;
}

/* > 0: there is no package, or the unit is not in it. */
static int from_package(struct kp_dwarf *d, Dwarf_Die *cu, Dwarf_Die *ret, struct kp_err *err)
{
	int r = 0;

	if (!d->package_sought) {
		d->package_sought = true;
		r = find_package_of(d, d->debug, err);
		if (r == 0 && d->module != d->debug)
			r = find_package_of(d, d->module, err);
	}
	if (r < 0 || !d->package)
		return r < 0 ? r : KP_SPLIT_NONE_HERE;
	return take_half(d, d->package, NULL, cu, ret, err);
}

/* > 0: not at this place. Takes path over. */
static int from_file(struct kp_dwarf *d, char *path, Dwarf_Die *cu, Dwarf_Die *ret,
		     struct kp_err *err)
{
	_cleanup_(kp_freep) char *owner = path;
	_cleanup_(kp_elf_file_destroyp) struct kp_elf_file *file = NULL;
	int r;

	if (access(owner, R_OK) < 0)
		return KP_SPLIT_NONE_HERE;
	r = kp_elf_file_open_whole(owner, &file, err);
	if (r < 0)
		return r;
	r = take_half(d, file, file, cu, ret, err);
	if (r == 0)
		(void)kp_take(file);
	return r;
}

/*
 * The split half of a skeleton unit. > 0: there is none; the symbol table gives the names then, and
 * the skeleton the lines.
 */
static int split_half(struct kp_dwarf *d, Dwarf_Die *cu, Dwarf_Die *ret, struct kp_err *err)
{
	const char *name = cu_string(cu, DW_AT_dwo_name), *dir = cu_string(cu, DW_AT_comp_dir);
	struct kp_err why = { 0 };
	char *path;
	int r;

	if (!name)
		name = cu_string(cu, DW_AT_GNU_dwo_name);
	if (!name)
		return KP_SPLIT_NONE_HERE;
	r = from_package(d, cu, ret, &why);
	for (size_t i = 0; r != 0 && r != -KP_ENOMEM &&
			   (path = kp_debugfile_split_path(d->debug, name, dir, d->dirs, i));
	     i++)
		r = from_file(d, path, cu, ret, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r != 0 && !d->note[0])
		snprintf(d->note, sizeof(d->note),
			 "%s: no inlined functions where the split half of the debug information, "
			 "%.100s, is missing or another%s%.150s",
			 d->debug->path, name, why.text[0] ? ": " : "", why.text);
	return r == 0 ? 0 : KP_SPLIT_NONE_HERE;
}

/* Reads the unit, with its other half if it has one. */
static int load(struct kp_dwarf *d, struct kp_unit *unit, struct kp_err *err)
{
	Dwarf_Die split;
	uint64_t id;
	int r = KP_SPLIT_NONE_HERE;

	if (kp_split_id(&unit->cu, &id))
		r = split_half(d, &unit->cu, &split, err);
	return r < 0 ? r : kp_unit_load(unit, r == 0 ? &split : &unit->cu, d->module, err);
}

/* Where the unit's DIE says nothing, its functions do. */
static int add_function_ranges(struct kp_dwarf *d, struct kp_unit *unit, struct kp_err *err)
{
	int r = load(d, unit, err);

	for (size_t i = 0; r == 0 && i < unit->map.count; i++)
		r = add_range(d, unit->map.range[i].start, unit->map.range[i].end, err);
	return r;
}

static int add_unit(struct kp_dwarf *d, Dwarf_Die *cu, struct kp_err *err)
{
	struct kp_unit *unit;
	int r;

	if (d->count == d->capacity) {
		size_t capacity = d->capacity ? d->capacity * 2 : 64;
		void *grown = reallocarray(d->unit, capacity, sizeof(*d->unit));

		if (!grown)
			return kp_fail_nomem(err);
		d->unit = grown;
		d->capacity = capacity;
	}
	unit = &d->unit[d->count];
	*unit = (struct kp_unit){ .cu = *cu };
	r = add_stated_ranges(d, cu, err);
	if (r > 0)
		r = add_function_ranges(d, unit, err);
	if (r < 0) {
		kp_unit_deinit(unit);
		return r;
	}
	d->count++;
	return 0;
}

static int index_units(struct kp_dwarf *d, struct kp_err *err)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	/* without the last argument libdw does not look for the split halves by itself */
	while (dwarf_get_units(d->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
		int tag = dwarf_tag(&die), r = 0;

		if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit)
			r = add_unit(d, &die, err);
		if (r < 0)
			return r;
	}
	return kp_rangemap_finish(&d->map, err);
}

int kp_dwarf_open(const struct kp_elf_file *debug, const struct kp_elf_file *alt,
		  const struct kp_elf_file *module, const char *const *dirs, struct kp_dwarf **ret,
		  struct kp_err *err)
{
	struct kp_dwarf *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return kp_fail_nomem(err);
	d->debug = debug;
	d->module = module;
	d->dirs = dirs;
	d->dwarf = dwarf_begin_elf(debug->elf, DWARF_C_READ, NULL);
	if (!d->dwarf) {
		r = kp_fail(err, KP_EBADDATA, "%s: debug information cannot be read: %s",
			    debug->path, dwarf_errmsg(-1));
		kp_dwarf_close(d);
		return r;
	}
	if (alt)
		d->alt = dwarf_begin_elf(alt->elf, DWARF_C_READ, NULL);
	if (d->alt)
		dwarf_setalt(d->dwarf, d->alt);
	r = index_units(d, err);
	if (r < 0) {
		kp_dwarf_close(d);
		return r;
	}
	*ret = d;
	return 0;
}

const char *kp_dwarf_note(const struct kp_dwarf *d)
{
	return d->note[0] ? d->note : NULL;
}

int kp_dwarf_unit(struct kp_dwarf *d, uint64_t address, struct kp_unit **ret, struct kp_err *err)
{
	uint32_t i;

	*ret = NULL;
	if (!kp_rangemap_find(&d->map, address, &i))
		return 0;
	*ret = &d->unit[i];
	return d->unit[i].loaded ? 0 : load(d, &d->unit[i], err);
}
