/*
 * The index of DWARF's units: see dwarf.h. Runs in the daemon. It is made from the units
 * themselves: .debug_aranges is only a hint, which clang does not write at all.
 */
#include "daemon/symbol/dwarf.h"

#include "common/cleanup.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define UNIT_RANGES_MAX ((size_t)1 << 24) /* more than any module has; against bad files */

struct kp_dwarf {
	Dwarf *dwarf, *alt;
	const struct kp_elf_file *debug, *module;
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

/* Where the unit's DIE says nothing, its functions do. */
static int add_function_ranges(struct kp_dwarf *d, struct kp_unit *unit, struct kp_err *err)
{
	int r = kp_unit_load(unit, &unit->cu, d->module, err);

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
		  const struct kp_elf_file *module, struct kp_dwarf **ret, struct kp_err *err)
{
	struct kp_dwarf *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return kp_fail_nomem(err);
	d->debug = debug;
	d->module = module;
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

static const char *cu_string(Dwarf_Die *cu, unsigned name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr(cu, name, &attr));
}

/* True if the file dir/a/b is there and regular; *odd is set if it is there and something else. */
static bool is_regular(const char *dir, size_t dir_len, const char *a, const char *b, bool *odd)
{
	_cleanup_(kp_freep) char *path = NULL;
	struct stat st;

	if (b[0] == '/')
		dir_len = 0, a = "";
	else if (a[0] == '/')
		dir_len = 0;
	if (asprintf(&path, "%.*s%s%s%s", (int)dir_len, dir, a, a[0] ? "/" : "", b) < 0) {
		path = NULL;
		return false;
	}
	if (stat(path, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode))
		*odd = true;
	return S_ISREG(st.st_mode);
}

/*
 * The split half (.dwo) of a skeleton unit. libdw finds and opens it, at two places that the file
 * names: it is let loose only where nothing but regular files can be opened. False: there is
 * none; the symbol table gives the names then, and the skeleton the lines.
 */
static bool split_half(const struct kp_dwarf *d, Dwarf_Die *cu, Dwarf_Die *ret)
{
	const char *name = cu_string(cu, DW_AT_dwo_name), *dir = cu_string(cu, DW_AT_comp_dir);
	const char *slash = strrchr(d->debug->path, '/');
	size_t dir_len = slash ? (size_t)(slash - d->debug->path) + 1 : 0;
	bool odd = false, beside, built;

	if (!name)
		name = cu_string(cu, DW_AT_GNU_dwo_name);
	if (!name)
		return false;
	beside = is_regular(d->debug->path, dir_len, "", name, &odd);
	built = dir && is_regular(d->debug->path, dir_len, dir, name, &odd);
	if (odd || (!beside && !built))
		return false;
	memset(ret, 0, sizeof(*ret));
	return dwarf_cu_info(cu->cu, NULL, NULL, NULL, ret, NULL, NULL, NULL) == 0 && ret->addr;
}

int kp_dwarf_unit(struct kp_dwarf *d, uint64_t address, struct kp_unit **ret, struct kp_err *err)
{
	struct kp_unit *unit;
	Dwarf_Die split;
	uint32_t i;

	*ret = NULL;
	if (!kp_rangemap_find(&d->map, address, &i))
		return 0;
	unit = *ret = &d->unit[i];
	if (unit->loaded)
		return 0;
	return kp_unit_load(unit, split_half(d, &unit->cu, &split) ? &split : &unit->cu, d->module,
			    err);
}
