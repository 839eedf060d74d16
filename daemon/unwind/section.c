/* Finds .eh_frame and .debug_frame: see section.h. Runs in the daemon. */
#include "daemon/unwind/section.h"

#include "daemon/unwind/build.h"
#include "daemon/unwind/go.h"

#include <dwarf.h>
#include <elf.h>
#include <stdlib.h>
#include <zlib.h>

/* What deflate makes of zeros (zlib's technical details: 1032 to 1); more is a lie. */
#define DEFLATE_RATIO_MAX 1100
#define INFLATED_MAX (UINT64_C(1) << 30)

static struct kp_entry_section make_section(const struct kp_image *image,
					    const struct kp_image_part *part)
{
	return (struct kp_entry_section){
		.base = {
			.image = image,
			.data = part->data,
			.address = part->address,
			.data_base = image->got,
		},
		.size = part->size,
	};
}

/* LSB Core 5.0, "The .eh_frame_hdr section": where .eh_frame is, but not how long. */
static bool find_by_header(const struct kp_image *image, struct kp_image_part *ret)
{
	struct kp_image_part part;
	struct kp_pointer_base base;
	struct kp_bytes bytes;
	uint64_t address;
	uint8_t encoding;

	if (!image->eh_frame_hdr || !kp_image_at(image, image->eh_frame_hdr, &part))
		return false;
	base = (struct kp_pointer_base){
		.image = image,
		.data = part.data,
		.address = part.address,
		.data_base = part.address,
	};
	bytes = kp_bytes(part.data, part.size);
	if (kp_bytes_u8(&bytes) != 1) /* version */
		return false;
	encoding = kp_bytes_u8(&bytes);
	kp_bytes_take(&bytes, 2); /* encodings of the search table */
	return kp_pointer_read(&base, &bytes, encoding, &address) &&
	       kp_image_at(image, address, ret);
}

bool kp_section_find_eh_frame(const struct kp_image *image, struct kp_entry_section *ret)
{
	struct kp_image_part part;
	bool by_name = kp_image_section(image, ".eh_frame", &part) && !part.compressed;

	if (!by_name && !find_by_header(image, &part))
		return false;
	*ret = make_section(image, &part);
	ret->is_eh = true;
	ret->open_end = !by_name;
	return true;
}

static int inflate_section(struct kp_image_part *part, void **ret_owned)
{
	Elf64_Chdr header;
	uLongf size;
	void *inflated;

	if (part->size < sizeof(header))
		return KP_UNWIND_NONE;
	memcpy(&header, part->data, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB || header.ch_size == 0 ||
	    header.ch_size > INFLATED_MAX || header.ch_size / DEFLATE_RATIO_MAX > part->size)
		return KP_UNWIND_NONE;
	size = header.ch_size;
	inflated = malloc(size);
	if (!inflated)
		return -KP_ENOMEM;
	if (uncompress(inflated, &size, part->data + sizeof(header), part->size - sizeof(header)) !=
	    Z_OK) {
		free(inflated);
		return KP_UNWIND_NONE;
	}
	*ret_owned = inflated;
	part->data = inflated;
	part->size = size;
	return 0;
}

/*
 * Go describes its CFAs there, but not where it saves the frame pointer, which all its functions
 * with a frame do; so the chain of frame pointers is the better guide (go.h).
 */
int kp_section_find_debug_frame(const struct kp_image *image, struct kp_entry_section *ret,
				void **ret_owned)
{
	struct kp_image_part part;
	int r = 0;

	*ret_owned = NULL;
	if (!kp_image_section(image, ".debug_frame", &part) || kp_go_made(image))
		return KP_UNWIND_NONE;
	if (part.compressed)
		r = inflate_section(&part, ret_owned);
	if (r == 0)
		*ret = make_section(image, &part);
	return r;
}
