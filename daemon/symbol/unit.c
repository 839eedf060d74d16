/*
 * One compilation unit, read through libdw into an index of our own: see unit.h. Runs in the
 * daemon. libdw answers an address by walking the unit again; a profile asks thousands of times.
 */
#include "daemon/symbol/unit.h"

#include <dwarf.h>
#include <stdlib.h>

/* Deeper nesting than compilers write, and more ranges than a unit can have; against bad files. */
#define DEPTH_MAX 250
#define RANGES_MAX ((size_t)1 << 24)

struct walk {
	struct kp_unit *unit;
	const struct kp_elf_file *module;
	struct kp_err *err;
};

void kp_unit_deinit(struct kp_unit *unit)
{
	kp_rangemap_deinit(&unit->map);
	free(unit->function);
	kp_lineprog_destroy(unit->program);
	unit->program = NULL;
	unit->function = NULL;
	unit->count = unit->capacity = 0;
}

static struct kp_function *append(struct kp_unit *unit)
{
	if (unit->count == unit->capacity) {
		size_t capacity = unit->capacity ? unit->capacity * 2 : 64;
		void *grown = reallocarray(unit->function, capacity, sizeof(*unit->function));

		if (!grown)
			return NULL;
		unit->function = grown;
		unit->capacity = capacity;
	}
	unit->function[unit->count] = (struct kp_function){ 0 };
	return &unit->function[unit->count];
}

/* Adds a DIE's ranges for the function that is about to get the index unit->count. */
static int add_ranges(struct walk *w, Dwarf_Die *die, uint32_t depth, uint64_t *ret_entry)
{
	struct kp_rangemap *map = &w->unit->map;
	size_t before = map->count;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while (map->count < RANGES_MAX && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		struct kp_range range = {
			.start = start, .end = end, .rank = depth, .value = (uint32_t)w->unit->count
		};
		int r;

		if (!kp_elf_file_is_text(w->module, start))
			continue;
		if (map->count == before)
			*ret_entry = start;
		r = kp_rangemap_add(map, &range, w->err);
		if (r < 0)
			return r;
	}
	return map->count > before ? 1 : 0;
}

/* Takes the DIE in if it has code. ret_parent: what its children are inlined into. */
static int take(struct walk *w, Dwarf_Die *die, int tag, uint32_t depth, uint32_t parent,
		uint32_t *ret_parent)
{
	struct kp_function *f;
	uint64_t entry = 0;
	int r = add_ranges(w, die, depth, &entry);

	*ret_parent = tag == DW_TAG_subprogram ? 0 : parent;
	if (r <= 0)
		return r;
	f = append(w->unit);
	if (!f)
		return kp_fail_nomem(w->err);
	f->die = *die;
	f->inlined = tag == DW_TAG_inlined_subroutine;
	f->parent = f->inlined ? parent : 0;
	f->entry = entry;
	*ret_parent = (uint32_t)++w->unit->count;
	return 0;
}

/* What cannot have code below it; skipping these is most of the speed. */
static bool is_leaf(int tag)
{
	switch (tag) {
	case DW_TAG_enumeration_type:
	case DW_TAG_array_type:
	case DW_TAG_subroutine_type:
	case DW_TAG_variant_part:
	case DW_TAG_call_site:
	case DW_TAG_GNU_call_site:
	case DW_TAG_GNU_template_parameter_pack:
	case DW_TAG_GNU_formal_parameter_pack:
	case DW_TAG_formal_parameter:
	case DW_TAG_variable:
		return true;
	default:
		return false;
	}
}

static int walk(struct walk *w, Dwarf_Die *die, uint32_t depth, uint32_t parent)
{
	Dwarf_Die child;

	if (depth > DEPTH_MAX || dwarf_child(die, &child) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&child);
		uint32_t inner = parent;
		int r = 0;

		if (is_leaf(tag))
			continue;
		if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
			r = take(w, &child, tag, depth, parent, &inner);
		if (r == 0)
			r = walk(w, &child, depth + 1, inner);
		if (r < 0)
			return r;
	} while (dwarf_siblingof(&child, &child) == 0);
	return 0;
}

struct kp_function *kp_unit_function(const struct kp_unit *unit, uint64_t address)
{
	uint32_t i;

	return kp_rangemap_find(&unit->map, address, &i) ? &unit->function[i] : NULL;
}

struct kp_function *kp_unit_parent(const struct kp_unit *unit, const struct kp_function *f)
{
	return f->parent ? &unit->function[f->parent - 1] : NULL;
}

/* The last row below the address; libdw keeps the rows sorted. NULL: there is none. */
static Dwarf_Line *row_before(const struct kp_unit *unit, uint64_t address)
{
	size_t low = 0, high = unit->line_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		Dwarf_Addr at = UINT64_MAX;

		dwarf_lineaddr(dwarf_onesrcline(unit->lines, mid), &at);
		if (at < address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? dwarf_onesrcline(unit->lines, low - 1) : NULL;
}

/* What was dropped and lies in front of the text reaches into it: its end is not before. */
static bool reaches_into_text(const struct kp_unit *unit, const struct kp_elf_file *module)
{
	Dwarf_Line *row = module->text.count ? row_before(unit, module->text.range[0].start) : NULL;
	bool end;

	return row && dwarf_lineendsequence(row, &end) == 0 && !end;
}

/* Two sequences end at one address: functions that the linker has made one. */
static bool are_folded(const struct kp_unit *unit, const struct kp_elf_file *module)
{
	Dwarf_Addr at = 0, last_at = 0;
	bool end, last_end = false;

	for (size_t i = 0; i < unit->line_count; i++) {
		Dwarf_Line *row = dwarf_onesrcline(unit->lines, i);

		if (dwarf_lineendsequence(row, &end) != 0 || (end && dwarf_lineaddr(row, &at) != 0))
			return false;
		if (end && last_end && at == last_at && kp_elf_file_is_text(module, at - 1))
			return true;
		last_at = end ? at : 0;
		last_end = end;
	}
	return false;
}

static int load_lines(struct kp_unit *unit, const struct kp_elf_file *module, struct kp_err *err)
{
	if (dwarf_getsrclines(&unit->cu, &unit->lines, &unit->line_count) != 0)
		unit->lines = NULL;
	if (unit->lines && (reaches_into_text(unit, module) || are_folded(unit, module)))
		return kp_lineprog_read(&unit->cu, module, &unit->program, err);
	return 0;
}

int kp_unit_load(struct kp_unit *unit, Dwarf_Die *root, const struct kp_elf_file *module,
		 struct kp_err *err)
{
	struct walk w = { .unit = unit, .module = module, .err = err };
	int r = walk(&w, root, 0, 0);

	if (r == 0)
		r = kp_rangemap_finish(&unit->map, err);
	if (r < 0)
		return r;
	unit->loaded = true;
	return load_lines(unit, module, err);
}

static bool line_by_program(const struct kp_unit *unit, uint64_t address, const char **ret_file,
			    uint32_t *ret_line)
{
	const struct kp_line_row *row = kp_lineprog_find(unit->program, address);
	Dwarf_Die cu = unit->cu;
	Dwarf_Files *files;
	size_t count;

	if (!row || dwarf_getsrcfiles(&cu, &files, &count) != 0 || row->file >= count)
		return false;
	*ret_file = dwarf_filesrc(files, row->file, NULL, NULL);
	*ret_line = row->line <= INT32_MAX ? row->line : 0;
	return *ret_file != NULL;
}

bool kp_unit_line(const struct kp_unit *unit, uint64_t address, const char **ret_file,
		  uint32_t *ret_line)
{
	Dwarf_Line *row =
		unit->lines && address < UINT64_MAX ? row_before(unit, address + 1) : NULL;
	bool end = true;
	int line;

	if (unit->program)
		return line_by_program(unit, address, ret_file, ret_line);
	if (!row || dwarf_lineendsequence(row, &end) != 0 || end || dwarf_lineno(row, &line) != 0)
		return false;
	*ret_file = dwarf_linesrc(row, NULL, NULL);
	*ret_line = line > 0 ? (uint32_t)line : 0;
	return *ret_file != NULL;
}

static const char *string_attr(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attr));
}

const char *kp_function_linkage_name(struct kp_function *f)
{
	const char *name = string_attr(&f->die, DW_AT_linkage_name);

	return name ? name : string_attr(&f->die, DW_AT_MIPS_linkage_name);
}

const char *kp_function_plain_name(struct kp_function *f)
{
	return string_attr(&f->die, DW_AT_name);
}

/*
 * The source file whose number an attribute holds, in the table of the attribute's own unit; NULL
 * if there is none. (dwarf_decl_file() would do, but it aborts on units without a line table.)
 */
static const char *file_of(Dwarf_Attribute *attr)
{
	Dwarf_Word number;
	Dwarf_Files *files;
	Dwarf_Die cu;
	size_t count;

	if (!attr || dwarf_formudata(attr, &number) != 0 ||
	    !dwarf_cu_die(attr->cu, &cu, NULL, NULL, NULL, NULL, NULL, NULL) ||
	    dwarf_getsrcfiles(&cu, &files, &count) != 0 || number >= count)
		return NULL;
	return dwarf_filesrc(files, number, NULL, NULL);
}

static uint32_t line_of(Dwarf_Attribute *attr)
{
	Dwarf_Word line;

	if (!attr || dwarf_formudata(attr, &line) != 0 || line > INT32_MAX)
		return 0;
	return (uint32_t)line;
}

void kp_function_call_site(struct kp_function *f, const char **ret_file, uint32_t *ret_line)
{
	Dwarf_Attribute attr;

	*ret_file = file_of(dwarf_attr(&f->die, DW_AT_call_file, &attr));
	*ret_line = line_of(dwarf_attr(&f->die, DW_AT_call_line, &attr));
}

void kp_function_declaration(struct kp_function *f, const char **ret_file, uint32_t *ret_line)
{
	Dwarf_Attribute attr;

	*ret_file = file_of(dwarf_attr_integrate(&f->die, DW_AT_decl_file, &attr));
	*ret_line = line_of(dwarf_attr_integrate(&f->die, DW_AT_decl_line, &attr));
}
