/* Encoded pointers of .eh_frame (LSB Core 5.0, "DWARF Exception Header Encoding"; DW_EH_PE_...). */
#pragma once

#include "daemon/unwind/bytes.h"
#include "daemon/unwind/image.h"

/* Where a section's bytes are and where they are loaded. */
struct kp_pointer_base {
	const struct kp_image *image;
	const uint8_t *data;
	uint64_t address; /* of data */
	uint64_t data_base; /* what "relative to data" means here */
};

/*
 * Reads one. False if it is cut, or of an encoding that has no meaning in a linked file; then the
 * cursor is anywhere.
 */
bool kp_pointer_read(const struct kp_pointer_base *base, struct kp_bytes *bytes, uint8_t encoding,
		     uint64_t *ret);

/* The same without the base: a length. */
bool kp_pointer_read_plain(struct kp_bytes *bytes, uint8_t encoding, uint64_t *ret);
