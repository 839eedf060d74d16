/*
 * Line number programs: see lineprog.h. Runs in the daemon. DWARF 2 to 5 (DWARF 5, 6.2), little
 * endian; the tables of directories and files are stepped over, libdw has them.
 */
#include "daemon/symbol/lineprog.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct kp_lineprog {
	struct kp_line_row *row;
	size_t count, capacity;
	struct kp_rangemap map; /* address -> index of row */
};

struct reader {
	const uint8_t *at, *end;
	bool bad; /* read over the end */
};

struct header {
	unsigned min_bytes, line_range, opcode_base;
	int line_base;
	uint8_t operands[UINT8_MAX + 1]; /* of each standard opcode */
};

/* Its rows, the last of which only says where it ends. */
struct sequence {
	uint64_t start;
	size_t first, count;
};

struct state {
	struct kp_lineprog *lines;
	const struct kp_elf_file *module;
	struct header header;
	struct kp_line_row row;
	struct sequence *sequence; /* those that begin in the text */
	size_t count, capacity;
	size_t first; /* row of this sequence */
	struct kp_err *err;
};

/* ---- bytes ---- */

static uint64_t fixed(struct reader *r, size_t bytes)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->at) < bytes) {
		r->bad = true;
		r->at = r->end;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)r->at[i] << 8 * i;
	r->at += bytes;
	return value;
}

/* LEB128; *ret_bits: how many bits were given, for the sign. */
static uint64_t leb(struct reader *r, unsigned *ret_bits)
{
	uint64_t value = 0, byte;

	*ret_bits = 0;
	do {
		byte = fixed(r, 1);
		if (*ret_bits < 64)
			value |= (byte & 0x7f) << *ret_bits;
		*ret_bits += 7;
	} while (byte & 0x80);
	return value;
}

static uint64_t uleb(struct reader *r)
{
	unsigned bits;

	return leb(r, &bits);
}

static uint64_t sleb(struct reader *r)
{
	unsigned bits;
	uint64_t value = leb(r, &bits);

	return bits < 64 && (value >> (bits - 1) & 1) ? value | UINT64_MAX << bits : value;
}

/* ---- rows ---- */

static int add_row(struct state *s)
{
	struct kp_lineprog *l = s->lines;

	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 256;
		void *grown = reallocarray(l->row, capacity, sizeof(*l->row));

		if (!grown)
			return kp_fail_nomem(s->err);
		l->row = grown;
		l->capacity = capacity;
	}
	l->row[l->count++] = s->row;
	return 0;
}

static int add_sequence(struct state *s, const struct sequence *sequence)
{
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? s->capacity * 2 : 16;
		void *grown = reallocarray(s->sequence, capacity, sizeof(*s->sequence));

		if (!grown)
			return kp_fail_nomem(s->err);
		s->sequence = grown;
		s->capacity = capacity;
	}
	s->sequence[s->count++] = *sequence;
	return 0;
}

static int end_sequence(struct state *s)
{
	int r = add_row(s);
	struct sequence sequence = { .first = s->first, .count = s->lines->count - s->first };

	if (r == 0)
		sequence.start = s->lines->row[s->first].address;
	if (r == 0 && kp_elf_file_is_text(s->module, sequence.start))
		r = add_sequence(s, &sequence);
	s->first = s->lines->count;
	s->row = (struct kp_line_row){ .file = 1, .line = 1 };
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct sequence *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int index_rows(struct state *s, const struct sequence *sequence)
{
	const struct kp_line_row *row = s->lines->row;
	int r = 0;

	for (size_t i = sequence->first; r == 0 && i + 1 < sequence->first + sequence->count; i++) {
		struct kp_range range = { .start = row[i].address,
					  .end = row[i + 1].address,
					  .rank = (uint32_t)i,
					  .value = (uint32_t)i };

		r = kp_rangemap_add(&s->lines->map, &range, s->err);
	}
	return r;
}

/* Of several from one address on, the first one: it is of the function that the others became. */
static int index_sequences(struct state *s)
{
	int r = 0;

	if (s->count)
		qsort(s->sequence, s->count, sizeof(*s->sequence), compare);
	for (size_t i = 0; r == 0 && i < s->count; i++)
		if (i == 0 || s->sequence[i].start != s->sequence[i - 1].start)
			r = index_rows(s, &s->sequence[i]);
	return r < 0 ? r : kp_rangemap_finish(&s->lines->map, s->err);
}

/* ---- opcodes ---- */

static int extended(struct state *s, struct reader *r)
{
	uint64_t len = uleb(r);
	struct reader operands = { r->at, r->at, false };
	unsigned code;

	if (len == 0 || len > (uint64_t)(r->end - r->at)) {
		r->bad = true;
		return 0;
	}
	r->at += len;
	operands.end = r->at;
	code = (unsigned)fixed(&operands, 1);
	if (code == DW_LNE_end_sequence)
		return end_sequence(s);
	if (code == DW_LNE_set_address && len - 1 <= sizeof(s->row.address))
		s->row.address = fixed(&operands, len - 1);
	return 0;
}

static int standard(struct state *s, unsigned opcode, struct reader *r)
{
	const struct header *h = &s->header;

	switch (opcode) {
	case DW_LNS_copy:
		return add_row(s);
	case DW_LNS_advance_pc:
		s->row.address += uleb(r) * h->min_bytes;
		return 0;
	case DW_LNS_advance_line:
		s->row.line += (uint32_t)sleb(r);
		return 0;
	case DW_LNS_set_file:
		s->row.file = (uint32_t)uleb(r);
		return 0;
	case DW_LNS_const_add_pc:
		s->row.address += (255 - h->opcode_base) / h->line_range * h->min_bytes;
		return 0;
	case DW_LNS_fixed_advance_pc:
		s->row.address += fixed(r, 2);
		return 0;
	default:
		for (unsigned i = 0; i < h->operands[opcode]; i++)
			uleb(r);
		return 0;
	}
}

static int special(struct state *s, unsigned opcode)
{
	const struct header *h = &s->header;
	unsigned value = opcode - h->opcode_base;

	s->row.address += value / h->line_range * h->min_bytes;
	s->row.line += (uint32_t)(h->line_base + (int)(value % h->line_range));
	return add_row(s);
}

static int run(struct state *s, struct reader *r)
{
	int result = 0;

	s->row = (struct kp_line_row){ .file = 1, .line = 1 };
	while (result == 0 && r->at < r->end && !r->bad) {
		unsigned opcode = (unsigned)fixed(r, 1);

		if (opcode >= s->header.opcode_base)
			result = special(s, opcode);
		else
			result = opcode ? standard(s, opcode, r) : extended(s, r);
	}
	return result;
}

/* ---- the header ---- */

/* Leaves the reader at the program; false: not one that can be run. */
static bool read_header(struct header *h, struct reader *r)
{
	uint64_t length = fixed(r, 4), header_length;
	size_t offset_bytes = length == UINT32_MAX ? 8 : 4;
	unsigned version, max_operations = 1;
	struct reader rest;

	if (offset_bytes == 8)
		length = fixed(r, 8);
	if (length > (uint64_t)(r->end - r->at))
		return false;
	r->end = r->at + length;
	version = (unsigned)fixed(r, 2);
	if (version >= 5)
		fixed(r, 2); /* sizes of addresses and of segment selectors */
	header_length = fixed(r, offset_bytes);
	if (r->bad || version < 2 || version > 5 || header_length > (uint64_t)(r->end - r->at))
		return false;
	rest = (struct reader){ r->at, r->at + header_length, false };
	r->at = rest.end;
	h->min_bytes = (unsigned)fixed(&rest, 1);
	if (version >= 4)
		max_operations = (unsigned)fixed(&rest, 1);
	fixed(&rest, 1); /* whether rows begin statements at first */
	h->line_base = (int8_t)fixed(&rest, 1);
	h->line_range = (unsigned)fixed(&rest, 1);
	h->opcode_base = (unsigned)fixed(&rest, 1);
	for (unsigned i = 1; i < h->opcode_base; i++)
		h->operands[i] = (uint8_t)fixed(&rest, 1);
	return !rest.bad && h->line_range && h->opcode_base && max_operations == 1;
}

static Elf_Data *section_data(Elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t strings;
	GElf_Shdr shdr;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name =
			gelf_getshdr(scn, &shdr) ? elf_strptr(elf, strings, shdr.sh_name) : NULL;

		if (name && (strcmp(name, ".debug_line") == 0 || strcmp(name, ".zdebug_line") == 0))
			return shdr.sh_flags & SHF_COMPRESSED ? NULL : elf_getdata(scn, NULL);
	}
	return NULL;
}

/* Where the unit's program is; libdw has unpacked the section. */
static bool find_program(Dwarf_Die *cu, struct reader *ret)
{
	Elf *elf = dwarf_getelf(dwarf_cu_getdwarf(cu->cu));
	const char *ident = elf ? elf_getident(elf, NULL) : NULL;
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	Elf_Data *data;

	if (!ident || ident[EI_DATA] != ELFDATA2LSB ||
	    dwarf_formudata(dwarf_attr(cu, DW_AT_stmt_list, &attr), &offset) != 0)
		return false;
	data = section_data(elf);
	if (!data || !data->d_buf || offset >= data->d_size)
		return false;
	ret->at = (const uint8_t *)data->d_buf + offset;
	ret->end = (const uint8_t *)data->d_buf + data->d_size;
	return true;
}

int kp_lineprog_read(Dwarf_Die *cu, const struct kp_elf_file *module, struct kp_lineprog **ret,
		     struct kp_err *err)
{
	struct state s = { .module = module, .err = err };
	struct reader reader = { 0 };
	int r;

	*ret = NULL;
	if (!find_program(cu, &reader) || !read_header(&s.header, &reader))
		return 0;
	s.lines = calloc(1, sizeof(*s.lines));
	if (!s.lines)
		return kp_fail_nomem(err);
	r = run(&s, &reader);
	if (r == 0)
		r = index_sequences(&s);
	free(s.sequence);
	if (r < 0) {
		kp_lineprog_destroy(s.lines);
		return r;
	}
	*ret = s.lines;
	return 0;
}

void kp_lineprog_destroy(struct kp_lineprog *lines)
{
	if (!lines)
		return;
	kp_rangemap_deinit(&lines->map);
	free(lines->row);
	free(lines);
}

const struct kp_line_row *kp_lineprog_find(const struct kp_lineprog *lines, uint64_t address)
{
	uint32_t i;

	return kp_rangemap_find(&lines->map, address, &i) ? &lines->row[i] : NULL;
}
