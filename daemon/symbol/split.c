/*
 * Split units joined again: see split.h. Runs in the daemon.
 *
 * An ELF file is made up in memory from the half's pieces and those of the main file's sections that
 * it refers to by number: addresses, and ranges before DWARF 5. They are cut so that the unit's own
 * part comes first, which is where libdw looks when a unit does not say. What libdw would take from
 * the skeleton is written into the half: its start (DW_AT_low_pc, which ranges are relative to) and
 * its table of files (DW_AT_stmt_list). There is room for these eight bytes without moving a DIE,
 * where the half has its id: in the header (DWARF 5, 7.5.1.2), or before as an attribute,
 * DW_AT_GNU_dwo_id. Without the id it is a unit like any other.
 */
#include "daemon/symbol/split.h"

#include "common/cleanup.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ADDRESSES_MAX ((size_t)1 << 20) /* bytes that are searched, or copied to add one */
#define ABBREVS_MAX 65536 /* of one unit */
#define PLACE_SIZE 8 /* a start and a table of files: 4 bytes each */

enum { INFO, ABBREV, LINE, LINE_STR, STR, STR_OFFSETS, RNGLISTS, RANGES, ADDR, SECTIONS };

static const char section_name[SECTIONS][20] = {
	[INFO] = ".debug_info",		[ABBREV] = ".debug_abbrev",
	[LINE] = ".debug_line",		[LINE_STR] = ".debug_line_str",
	[STR] = ".debug_str",		[STR_OFFSETS] = ".debug_str_offsets",
	[RNGLISTS] = ".debug_rnglists", [RANGES] = ".debug_ranges",
	[ADDR] = ".debug_addr",
};

/* An ELF file of sections that lie somewhere in memory. */
struct made {
	Elf *elf;
	Dwarf *dwarf;
	char names[sizeof(section_name) + 16];
};

struct kp_split {
	struct kp_piece section[SECTIONS];
	struct made made;
	void *info, *abbrev, *addr; /* copies that were changed; or NULL */
};

static void unmake(struct made *m)
{
	dwarf_end(m->dwarf);
	if (m->elf)
		elf_end(m->elf);
	m->dwarf = NULL;
	m->elf = NULL;
}

void kp_split_close(struct kp_split *s)
{
	if (!s)
		return;
	unmake(&s->made);
	free(s->info);
	free(s->abbrev);
	free(s->addr);
	free(s);
}

static void kp_split_closep(struct kp_split **s)
{
	kp_split_close(*s);
}

static bool add_section(Elf *elf, const void *bytes, size_t size, uint32_t type, size_t name)
{
	Elf_Scn *scn = elf_newscn(elf);
	Elf_Data *data = scn ? elf_newdata(scn) : NULL;
	GElf_Shdr shdr;

	if (!data || !gelf_getshdr(scn, &shdr))
		return false;
	data->d_buf = (void *)(uintptr_t)bytes;
	data->d_size = size;
	data->d_type = ELF_T_BYTE;
	data->d_align = 1;
	shdr.sh_name = (uint32_t)name;
	shdr.sh_type = type;
	shdr.sh_size = size;
	return gelf_update_shdr(scn, &shdr) != 0;
}

static bool fill_elf(struct made *m, const struct kp_piece section[SECTIONS], uint16_t machine)
{
	GElf_Ehdr ehdr;
	size_t at = 1; /* the first name is the empty one */

	if (!gelf_newehdr(m->elf, ELFCLASS64) || !gelf_getehdr(m->elf, &ehdr))
		return false;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr.e_type = ET_EXEC;
	ehdr.e_machine = machine;
	ehdr.e_version = EV_CURRENT;
	ehdr.e_shstrndx = 1;
	if (!gelf_update_ehdr(m->elf, &ehdr) ||
	    !add_section(m->elf, m->names, sizeof(m->names), SHT_STRTAB, 0))
		return false;
	for (size_t i = 0; i < SECTIONS; i++) {
		if (!section[i].size)
			continue;
		strcpy(m->names + at, section_name[i]);
		if (!add_section(m->elf, section[i].data, section[i].size, SHT_PROGBITS, at))
			return false;
		at += strlen(section_name[i]) + 1;
	}
	return true;
}

/* libelf wants a descriptor, but for what lies in memory it does nothing with it. */
static int make(struct made *m, const struct kp_piece section[SECTIONS],
		const struct kp_elf_file *main, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = memfd_create("kitprof-split", MFD_CLOEXEC);
	GElf_Ehdr ehdr;

	if (fd < 0)
		return kp_fail_errno(err, "no file in memory");
	if (!gelf_getehdr(main->elf, &ehdr) || ehdr.e_ident[EI_DATA] != ELFDATA2LSB)
		return kp_fail(err, KP_EBADDATA, "not of a little-endian machine");
	m->elf = elf_begin(fd, ELF_C_WRITE, NULL);
	if (!m->elf || !fill_elf(m, section, ehdr.e_machine))
		return kp_fail(err, KP_EBADDATA, "%s", elf_errmsg(-1));
	m->dwarf = dwarf_begin_elf(m->elf, DWARF_C_READ, NULL);
	elf_cntl(m->elf, ELF_C_FDDONE);
	return m->dwarf ? 0 : kp_fail(err, KP_EBADDATA, "%s", dwarf_errmsg(-1));
}

/* The half as it is in the pieces. */
struct half {
	Dwarf_Die die;
	Dwarf_Half version;
	size_t start, head; /* offset of its header, and its size */
	const uint8_t *id; /* before DWARF 5: the value of the attribute */
};

static bool is_half(Dwarf_CU *cu, uint8_t type, uint64_t id)
{
	uint8_t address_size, offset_size;
	uint64_t found;

	return type == DW_UT_split_compile &&
	       dwarf_cu_info(cu, NULL, NULL, NULL, NULL, &found, &address_size, &offset_size) ==
		       0 &&
	       found == id && address_size == 8 && offset_size == 4;
}

/* Where DWARF 4 has the id. */
static const uint8_t *id_value(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr(die, DW_AT_GNU_dwo_id, &attr) || attr.form != DW_FORM_data8)
		return NULL;
	return attr.valp;
}

static bool find_half(const struct made *m, uint64_t id, struct half *ret)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;

	while (dwarf_get_units(m->dwarf, cu, &cu, &ret->version, &type, &ret->die, NULL) == 0) {
		if (!is_half(cu, type, id))
			continue;
		ret->head = dwarf_cuoffset(&ret->die);
		ret->start = dwarf_dieoffset(&ret->die) - ret->head;
		ret->id = ret->version < 5 ? id_value(&ret->die) : NULL;
		return ret->version >= 5 ? ret->head == 20 : ret->head == 11 && ret->id;
	}
	return false;
}

/* The attribute's number, which may be an offset into a section; 0 if there is none. */
static uint64_t number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	Dwarf_Word ret = 0;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &ret) == 0 ? ret : 0;
}

static struct kp_piece behind(struct kp_piece piece, uint64_t offset)
{
	if (offset >= piece.size)
		return (struct kp_piece){ 0 };
	return (struct kp_piece){ piece.data + offset, piece.size - offset };
}

/* The unit's part of the table of addresses (DWARF 5, 7.27): a header of 8 bytes, then addresses. */
static struct kp_piece addresses(const struct kp_elf_file *main, Dwarf_Die *skeleton, bool gnu)
{
	struct kp_piece whole = kp_splitfile_section(main, ".debug_addr"), ret;
	uint64_t base = number(skeleton, gnu ? DW_AT_GNU_addr_base : DW_AT_addr_base);
	uint32_t size;

	ret = behind(whole, base);
	if (gnu || base < 8 || !ret.size)
		return ret;
	memcpy(&size, ret.data - 8, sizeof(size)); /* of the part, without these four bytes */
	if (size >= 4 && size - 4 < ret.size)
		ret.size = size - 4;
	return ret;
}

/* The number of the address in the unit's table; it is added where it is missing. */
static int index_of(struct kp_split *s, uint64_t address, uint32_t *ret, struct kp_err *err)
{
	struct kp_piece *table = &s->section[ADDR];
	size_t size = table->size & ~(size_t)7;

	for (size_t at = 0; at < size && at < ADDRESSES_MAX; at += 8) {
		if (memcmp(table->data + at, &address, 8) == 0) {
			*ret = (uint32_t)(at / 8);
			return 0;
		}
	}
	if (size > ADDRESSES_MAX)
		return kp_fail(err, KP_EBADDATA, "its table of addresses is too large");
	s->addr = malloc(size + 8);
	if (!s->addr)
		return kp_fail_nomem(err);
	if (size)
		memcpy(s->addr, table->data, size);
	memcpy((char *)s->addr + size, &address, 8);
	*table = (struct kp_piece){ s->addr, size + 8 };
	*ret = (uint32_t)(size / 8);
	return 0;
}

struct cursor {
	const uint8_t *at, *end;
};

static bool read_number(struct cursor *c, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
		uint8_t byte = *c->at++;

		*ret |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* One attribute of an abbreviation (DWARF 5, 7.5.3); the last one is 0, 0. */
static bool read_attribute(struct cursor *c, uint64_t *ret_name, uint64_t *ret_form)
{
	uint64_t value;

	if (!read_number(c, ret_name) || !read_number(c, ret_form))
		return false;
	return *ret_form != DW_FORM_implicit_const || read_number(c, &value);
}

/* To the first attribute of the abbreviation with that code. */
static bool find_abbrev(struct cursor *c, uint64_t code)
{
	uint64_t found, tag, name, form;

	for (unsigned n = 0; n < ABBREVS_MAX; n++) {
		if (!read_number(c, &found) || !found || !read_number(c, &tag) || c->at >= c->end)
			return false;
		c->at++; /* has children */
		if (found == code)
			return true;
		do {
			if (!read_attribute(c, &name, &form))
				return false;
		} while (name || form);
	}
	return false;
}

/* To the attribute itself; c is behind it then. */
static const uint8_t *find_attribute(struct cursor *c, unsigned wanted)
{
	uint64_t name = 1, form = 1;

	while (name || form) {
		const uint8_t *start = c->at;

		if (!read_attribute(c, &name, &form))
			return NULL;
		if (name == wanted)
			return start;
	}
	return NULL;
}

/*
 * The unit's abbreviations once more behind those that are there, with four bytes in place of what
 * says the id, or before the other attributes. *ret: their offset.
 */
static int change_abbrev(struct kp_split *s, const struct half *half, const uint8_t attributes[4],
			 uint32_t *ret, struct kp_err *err)
{
	const struct kp_piece *old = &s->section[ABBREV], *info = &s->section[INFO];
	struct cursor die = { half->die.addr, info->data + info->size }, c;
	const uint8_t *cut;
	uint8_t *new;
	uint32_t start;
	uint64_t code;
	size_t before;

	memcpy(&start, info->data + half->start + (half->version < 5 ? 6 : 8), sizeof(start));
	if (start >= old->size || !read_number(&die, &code))
		return kp_fail(err, KP_EBADDATA, "its abbreviations are damaged");
	c = (struct cursor){ old->data + start, old->data + old->size };
	cut = find_abbrev(&c, code) ? c.at : NULL;
	if (cut && half->version < 5)
		cut = find_attribute(&c, DW_AT_GNU_dwo_id);
	if (!cut || old->size > UINT32_MAX / 2)
		return kp_fail(err, KP_EBADDATA, "its abbreviations are damaged");
	before = (size_t)(cut - old->data) - start;
	new = s->abbrev = malloc(old->size + before + 4 + (size_t)(c.end - c.at));
	if (!new)
		return kp_fail_nomem(err);
	memcpy(new, old->data, old->size);
	memcpy(new + old->size, old->data + start, before);
	memcpy(new + old->size + before, attributes, 4);
	memcpy(new + old->size + before + 4, c.at, (size_t)(c.end - c.at));
	*ret = (uint32_t)old->size;
	s->section[ABBREV] =
		(struct kp_piece){ new, old->size + before + 4 + (size_t)(c.end - c.at) };
	return 0;
}

/* What is written into the half. */
struct change {
	uint32_t abbrev;
	uint32_t place[2]; /* start and table of files */
};

/* *ret_die: offset of the unit's DIE. */
static int change_info(struct kp_split *s, const struct half *half, const struct change *change,
		       Dwarf_Off *ret_die, struct kp_err *err)
{
	const struct kp_piece *old = &s->section[INFO];
	struct cursor die = { half->die.addr, old->data + old->size };
	size_t code_size;
	uint64_t code;
	uint8_t *unit;

	if (!read_number(&die, &code))
		return kp_fail(err, KP_EBADDATA, "its unit is damaged");
	code_size = (size_t)(die.at - (const uint8_t *)half->die.addr);
	s->info = malloc(old->size);
	if (!s->info)
		return kp_fail_nomem(err);
	memcpy(s->info, old->data, old->size);
	unit = (uint8_t *)s->info + half->start;
	if (half->version < 5) {
		if ((size_t)(half->id - old->data) > old->size - PLACE_SIZE)
			return kp_fail(err, KP_EBADDATA, "its unit is damaged");
		memcpy(unit + 6, &change->abbrev, 4);
		memcpy((uint8_t *)s->info + (half->id - old->data), change->place, PLACE_SIZE);
	} else {
		unit[6] = DW_UT_compile;
		memcpy(unit + 8, &change->abbrev, 4);
		memmove(unit + 12, unit + half->head, code_size);
		memcpy(unit + 12 + code_size, change->place, PLACE_SIZE);
	}
	*ret_die = half->start + (half->version < 5 ? 11 : 12);
	s->section[INFO] = (struct kp_piece){ s->info, old->size };
	return 0;
}

/* Names of source files come from the half's own table, else from the skeleton's. */
static uint32_t take_lines(struct kp_split *s, const struct kp_elf_file *main, Dwarf_Die *skeleton)
{
	if (s->section[LINE].size)
		return 0;
	s->section[LINE] = kp_splitfile_section(main, ".debug_line");
	s->section[LINE_STR] = kp_splitfile_section(main, ".debug_line_str");
	return (uint32_t)number(skeleton, DW_AT_stmt_list);
}

/* Makes the unit whole. */
static int join(struct kp_split *s, const struct kp_elf_file *main, Dwarf_Die *skeleton,
		const struct half *half, Dwarf_Off *ret_die, struct kp_err *err)
{
	uint8_t attributes[4] = { DW_AT_low_pc, DW_FORM_addrx4, DW_AT_stmt_list,
				  DW_FORM_sec_offset };
	struct change change = { .place[1] = take_lines(s, main, skeleton) };
	bool gnu = half->version < 5;
	Dwarf_Addr start = 0;
	int r = 0;

	s->section[ADDR] = addresses(main, skeleton, gnu);
	if (gnu)
		s->section[RANGES] = behind(kp_splitfile_section(main, ".debug_ranges"),
					    number(skeleton, DW_AT_GNU_ranges_base));
	if (dwarf_lowpc(skeleton, &start) == 0 && start) {
		r = index_of(s, start, &change.place[0], err);
	} else {
		attributes[0] = DW_AT_decl_column; /* what nobody asks a unit for */
		attributes[1] = DW_FORM_data4;
	}
	if (r == 0)
		r = change_abbrev(s, half, attributes, &change.abbrev, err);
	return r < 0 ? r : change_info(s, half, &change, ret_die, err);
}

bool kp_split_id(Dwarf_Die *unit, uint64_t *ret)
{
	uint8_t type;

	return dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, ret, NULL, NULL) == 0 &&
	       type == DW_UT_skeleton;
}

int kp_split_open(const struct kp_elf_file *main, Dwarf_Die *skeleton,
		  const struct kp_split_pieces *pieces, struct kp_split **ret, Dwarf_Die *ret_unit,
		  struct kp_err *err)
{
	_cleanup_(kp_split_closep) struct kp_split *s = calloc(1, sizeof(*s));
	struct half half;
	Dwarf_Off die = 0;
	uint64_t id;
	int r;

	if (!s)
		return kp_fail_nomem(err);
	if (!kp_split_id(skeleton, &id))
		return KP_SPLIT_NONE_HERE;
	s->section[INFO] = pieces->info;
	s->section[ABBREV] = pieces->abbrev;
	s->section[LINE] = pieces->line;
	s->section[STR] = pieces->str;
	s->section[STR_OFFSETS] = pieces->str_offsets;
	s->section[RNGLISTS] = pieces->rnglists;
	r = make(&s->made, s->section, main, err);
	if (r < 0)
		return r;
	if (!find_half(&s->made, id, &half))
		return KP_SPLIT_NONE_HERE;
	r = join(s, main, skeleton, &half, &die, err);
	if (r < 0)
		return r;
	unmake(&s->made);
	r = make(&s->made, s->section, main, err);
	if (r < 0)
		return r;
	if (!dwarf_offdie(s->made.dwarf, die, ret_unit))
		return kp_fail(err, KP_EBADDATA, "%s", dwarf_errmsg(-1));
	*ret = kp_take(s);
	return 0;
}
