/*
 * CIEs and FDEs: see entries.h. Runs in the daemon. Two passes over the chain of lengths, CIEs
 * first: an FDE may only refer to a CIE of the chain, so that each byte of the section is parsed
 * once, whatever the references say.
 */
#include "daemon/unwind/entries.h"

#include "daemon/unwind/program.h"

#include <assert.h>
#include <dwarf.h>
#include <stdlib.h>

#define NO_CIE UINT32_MAX

/* One entry, its length read. */
struct entry {
	uint64_t offset; /* of the length, in the section */
	struct kp_bytes body; /* behind the id */
	bool is_cie;
	uint64_t cie_offset; /* of an FDE */
};

void kp_entries_deinit(struct kp_entries *entries)
{
	free(entries->cie);
	free(entries->fde);
}

/*
 * The entry at bytes, which moves on behind it. False at the end; *ret_damaged where the chain
 * breaks off before it.
 */
static bool next_entry(const struct kp_entry_section *section, struct kp_bytes *bytes,
		       struct entry *ret, bool *ret_damaged)
{
	uint64_t length, id, id_offset, cie_id = section->is_eh ? 0 : UINT32_MAX;
	bool wide = false;

	do { /* a length of 0: padding, or the end of what one object file brought */
		*ret_damaged = false;
		if (kp_bytes_left(bytes) < 4)
			return false;
		ret->offset = (uint64_t)(bytes->at - section->base.data);
		length = kp_bytes_u32(bytes);
		if (length == 0 && section->open_end)
			return false;
	} while (length == 0);
	*ret_damaged = true;
	if (length == UINT32_MAX) {
		wide = !section->is_eh; /* of .eh_frame, only the length is */
		length = kp_bytes_u64(bytes);
		cie_id = section->is_eh ? 0 : UINT64_MAX;
	} else if (length >= 0xfffffff0) {
		return false;
	}
	ret->body = kp_bytes(bytes->at, 0);
	if (!kp_bytes_take(bytes, length))
		return false;
	*ret_damaged = false;
	ret->body.end = bytes->at;
	id_offset = (uint64_t)(ret->body.at - section->base.data);
	id = wide ? kp_bytes_u64(&ret->body) : kp_bytes_u32(&ret->body);
	ret->is_cie = id == cie_id && !ret->body.cut;
	ret->cie_offset = section->is_eh ? id_offset - id : id;
	return true;
}

static void *make_room(void *array, size_t *room, size_t count, size_t item_size)
{
	void *grown;

	if (count < *room)
		return array;
	grown = reallocarray(array, *room ? 2 * *room : 64, item_size);
	if (grown)
		*room = *room ? 2 * *room : 64;
	return grown;
}

/* Of the letters behind z. Those behind one that we do not know are lost, as libgcc has it. */
static bool read_augmentation(const struct kp_entry_section *section, const char *letter,
			      struct kp_bytes *data, struct kp_cie *cie)
{
	uint64_t unused;

	for (; *letter; letter++) {
		switch (*letter) {
		case 'L': /* encoding of the pointer to language-specific data in FDEs */
			kp_bytes_u8(data);
			break;
		case 'R':
			cie->encoding = kp_bytes_u8(data);
			break;
		case 'P': /* personality: only the bytes count, not what it points to */
			if (!kp_pointer_read(&section->base, data,
					     kp_bytes_u8(data) & (uint8_t)~DW_EH_PE_indirect,
					     &unused))
				return false;
			break;
		case 'S':
			cie->traits.is_signal = true;
			break;
		case 'B': /* aarch64: return addresses are signed with the other key */
		case 'G': /* aarch64: the stack is tagged */
			break;
		default:
			return !data->cut;
		}
	}
	return !data->cut;
}

static bool read_cie(const struct kp_entry_section *section, const struct kp_arch *arch,
		     const struct entry *entry, struct kp_cie *cie)
{
	struct kp_bytes body = entry->body, data;
	uint8_t version = kp_bytes_u8(&body);
	const char *letter = kp_bytes_string(&body);

	if (!letter || (version != 1 && version != 3 && version != 4))
		return false;
	if (letter[0] == 'e' && letter[1] == 'h') { /* GCC before 3.0 */
		kp_bytes_u64(&body);
		letter += 2;
	}
	if (version == 4 && (kp_bytes_u8(&body) != 8 || kp_bytes_u8(&body) != 0))
		return false; /* size of addresses, of segment selectors */
	cie->code_align = kp_bytes_uleb(&body);
	cie->data_align = kp_bytes_sleb(&body);
	cie->ra_column = version == 1 ? kp_bytes_u8(&body) : kp_bytes_uleb(&body);
	cie->traits = (struct kp_frame_traits){
		.arch = arch,
		.ra_in_link = arch->signal.ra_off && cie->ra_column == arch->dwarf.ra,
	};
	cie->encoding = DW_EH_PE_absptr;
	cie->sized = *letter == 'z';
	if (cie->sized) {
		uint64_t size = kp_bytes_uleb(&body);

		data = kp_bytes(body.at, 0);
		kp_bytes_take(&body, size);
		data.end = body.at;
		if (!read_augmentation(section, letter + 1, &data, cie))
			return false;
	} else if (*letter) {
		return false; /* no telling where its data ends */
	}
	cie->program = body;
	return !body.cut && kp_program_start(cie);
}

static int add_cie(struct kp_entries *entries, const struct kp_entry_section *section,
		   const struct entry *entry)
{
	struct kp_cie cie = { .offset = entry->offset, .section = section };
	void *grown;

	if (!read_cie(section, entries->image->arch, entry, &cie))
		return 0; /* its FDEs will not find it */
	grown = make_room(entries->cie, &entries->cie_room, entries->cie_count, sizeof(cie));
	if (!grown)
		return -KP_ENOMEM;
	entries->cie = grown;
	entries->cie[entries->cie_count++] = cie;
	return 0;
}

/* Of the CIEs from first on, which are sorted by offset. Mostly it is the one as before. */
static uint32_t find_cie(const struct kp_entries *entries, size_t first, uint64_t offset,
			 uint32_t before)
{
	size_t low = first, high = entries->cie_count;

	if (before != NO_CIE && entries->cie[before].offset == offset)
		return before;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entries->cie[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < entries->cie_count && entries->cie[low].offset == offset ? (uint32_t)low
									      : NO_CIE;
}

/* False: makes no sense. An FDE of no code comes out empty. */
static bool read_fde(const struct kp_entries *entries, const struct kp_cie *cie,
		     const struct entry *entry, struct kp_fde *fde)
{
	const struct kp_image_segment *segment;
	struct kp_bytes body = entry->body;
	uint64_t length;

	if (!kp_pointer_read(&cie->section->base, &body, cie->encoding, &fde->start) ||
	    !kp_pointer_read_plain(&body, cie->encoding, &length))
		return false;
	if (cie->sized)
		kp_bytes_take(&body, kp_bytes_uleb(&body));
	if (body.cut || kp_bytes_left(&body) > UINT32_MAX || fde->start + length < fde->start)
		return false;
	fde->program = body.at;
	fde->program_size = (uint32_t)kp_bytes_left(&body);
	fde->end = fde->start;
	segment = kp_image_code(entries->image, fde->start);
	/* At 0 of .debug_frame is what the linker left out. */
	if (segment && (fde->start || cie->section->is_eh))
		fde->end += length < segment->end - fde->start ? length : segment->end - fde->start;
	return true;
}

static int add_fde(struct kp_entries *entries, struct kp_fde *fde)
{
	void *grown = make_room(entries->fde, &entries->fde_room, entries->fde_count, sizeof(*fde));

	if (!grown)
		return -KP_ENOMEM;
	entries->fde = grown;
	fde->order = (uint32_t)entries->fde_count;
	entries->fde[entries->fde_count++] = *fde;
	return 0;
}

static int add_cies(struct kp_entries *entries, const struct kp_entry_section *section)
{
	struct kp_bytes bytes = kp_bytes(section->base.data, section->size);
	struct entry entry;
	bool damaged;
	int r = 0;

	while (r == 0 && next_entry(section, &bytes, &entry, &damaged))
		if (entry.is_cie)
			r = add_cie(entries, section, &entry);
	return r;
}

int kp_entries_add(struct kp_entries *entries, const struct kp_entry_section *added)
{
	struct kp_entry_section *section = &entries->section[entries->section_count++];
	struct kp_bytes bytes = kp_bytes(added->base.data, added->size);
	size_t first_cie = entries->cie_count;
	struct kp_fde fde = { .cie = NO_CIE };
	struct entry entry;
	bool damaged;
	int r;

	assert(entries->section_count <= KP_ENTRY_SECTION_MAX);
	*section = *added;
	r = add_cies(entries, section);
	while (r == 0 && next_entry(section, &bytes, &entry, &damaged)) {
		if (entry.is_cie)
			continue;
		fde.cie = find_cie(entries, first_cie, entry.cie_offset, fde.cie);
		if (fde.cie == NO_CIE || !read_fde(entries, &entries->cie[fde.cie], &entry, &fde))
			entries->bad_fdes++;
		else if (fde.end > fde.start)
			r = add_fde(entries, &fde);
	}
	if (r == 0 && damaged)
		entries->bad_fdes++; /* it, and whatever is behind it */
	return r;
}
