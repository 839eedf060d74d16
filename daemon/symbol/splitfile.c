/*
 * .dwo and .dwp files: see splitfile.h. Runs in the daemon. The index of a package is in DWARF 5,
 * 7.3.5; the one before it, with the same layout and other numbers for the sections, in "DebugFission
 * DWP" of the GCC wiki.
 */
#include "daemon/symbol/splitfile.h"

#include <stdbool.h>
#include <string.h>

#define UNPACKED_MAX ((uint64_t)1 << 30) /* of one compressed section */
#define COLUMNS_MAX 16 /* eight kinds of sections are known */
#define HEAD_SIZE 16

struct kp_piece kp_splitfile_section(const struct kp_elf_file *file, const char *name)
{
	struct kp_piece ret = { 0 };
	GElf_Shdr shdr;
	Elf_Scn *scn = kp_elf_file_section(file, name, &shdr);
	Elf_Data *data;
	GElf_Chdr chdr;

	if (!scn || shdr.sh_type == SHT_NOBITS)
		return ret;
	if ((shdr.sh_flags & SHF_COMPRESSED) &&
	    (!gelf_getchdr(scn, &chdr) || chdr.ch_size > UNPACKED_MAX ||
	     elf_compress(scn, 0, 0) < 0))
		return ret;
	data = elf_getdata(scn, NULL);
	if (data && data->d_buf)
		ret = (struct kp_piece){ data->d_buf, data->d_size };
	return ret;
}

static uint32_t word(const uint8_t *p)
{
	uint32_t ret;

	memcpy(&ret, p, sizeof(ret));
	return ret;
}

static uint64_t wide(const uint8_t *p)
{
	uint64_t ret;

	memcpy(&ret, p, sizeof(ret));
	return ret;
}

struct index {
	bool gnu; /* the one before DWARF 5 */
	uint32_t columns, units, slots;
	const uint8_t *ids, *rows, *table; /* slots of 8, slots of 4, rows of 4 * columns */
};

static bool read_index(struct kp_piece section, struct index *ret)
{
	uint32_t version = section.size >= HEAD_SIZE ? word(section.data) : 0;
	uint64_t need;

	/* DWARF 5 has two bytes of padding where GNU's version has its upper half */
	if (version != 2 && (version & 0xffff) != 5)
		return false;
	*ret = (struct index){
		.gnu = version == 2,
		.columns = word(section.data + 4),
		.units = word(section.data + 8),
		.slots = word(section.data + 12),
	};
	need = HEAD_SIZE + (uint64_t)ret->slots * 12 +
	       ((uint64_t)ret->units * 2 + 1) * 4 * ret->columns;
	if (ret->columns > COLUMNS_MAX || need > section.size || ret->slots == 0 ||
	    (ret->slots & (ret->slots - 1)))
		return false;
	ret->ids = section.data + HEAD_SIZE;
	ret->rows = ret->ids + (size_t)ret->slots * 8;
	ret->table = ret->rows + (size_t)ret->slots * 4;
	return true;
}

/* The unit's row, counted from 1; 0: it is not there. */
static uint32_t find_row(const struct index *index, uint64_t id)
{
	uint32_t mask = index->slots - 1, at = id & mask, step = ((id >> 32) & mask) | 1;

	for (uint32_t i = 0; i < index->slots; i++, at = (at + step) & mask) {
		uint32_t row = word(index->rows + (size_t)at * 4);

		if (row == 0)
			return 0;
		if (wide(index->ids + (size_t)at * 8) == id)
			return row <= index->units ? row : 0;
	}
	return 0;
}

/* Which of the pieces a column is about, or NULL. */
static struct kp_piece *piece_of(const struct index *index, uint32_t kind,
				 struct kp_split_pieces *p)
{
	switch (kind) {
	case 1:
		return &p->info;
	case 3:
		return &p->abbrev;
	case 4:
		return &p->line;
	case 6:
		return &p->str_offsets;
	case 8:
		return index->gnu ? NULL : &p->rnglists;
	default:
		return NULL;
	}
}

/* Cuts whole sections down to what the row says of them. */
static bool cut(const struct index *index, uint32_t row, struct kp_split_pieces *p)
{
	struct kp_split_pieces whole = *p;

	*p = (struct kp_split_pieces){ .str = whole.str };
	for (uint32_t i = 0; i < index->columns; i++) {
		size_t at = (size_t)row * index->columns + i;
		size_t to_sizes = (size_t)index->units * index->columns;
		uint32_t kind = word(index->table + (size_t)i * 4);
		uint32_t offset = word(index->table + at * 4);
		uint32_t size = word(index->table + (at + to_sizes) * 4);
		struct kp_piece *from = piece_of(index, kind, &whole);
		struct kp_piece *to = piece_of(index, kind, p);

		if (!from || !to || !size)
			continue;
		if (offset > from->size || size > from->size - offset)
			return false;
		*to = (struct kp_piece){ from->data + offset, size };
	}
	return true;
}

int kp_splitfile_pieces(const struct kp_elf_file *file, uint64_t id, struct kp_split_pieces *ret,
			struct kp_err *err)
{
	struct kp_piece section = kp_splitfile_section(file, ".debug_cu_index");
	struct index index;
	uint32_t row;

	*ret = (struct kp_split_pieces){
		.info = kp_splitfile_section(file, ".debug_info.dwo"),
		.abbrev = kp_splitfile_section(file, ".debug_abbrev.dwo"),
		.line = kp_splitfile_section(file, ".debug_line.dwo"),
		.str = kp_splitfile_section(file, ".debug_str.dwo"),
		.str_offsets = kp_splitfile_section(file, ".debug_str_offsets.dwo"),
		.rnglists = kp_splitfile_section(file, ".debug_rnglists.dwo"),
	};
	if (section.size) {
		if (!read_index(section, &index))
			return kp_fail(err, KP_EBADDATA, "%s: its index of units is damaged",
				       file->path);
		row = find_row(&index, id);
		if (row == 0)
			return KP_SPLITFILE_NONE;
		if (!cut(&index, row, ret))
			return kp_fail(err, KP_EBADDATA, "%s: its index of units is damaged",
				       file->path);
	}
	if (!ret->info.size || !ret->abbrev.size)
		return kp_fail(err, KP_EBADDATA, "%s: has no split debug information", file->path);
	return 0;
}
