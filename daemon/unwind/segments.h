/*
 * Where the executable segments of an ELF file lie, in the file and in its own numbering of
 * addresses (gABI, "Program Header"): what a mapping of it needs to find its place in the table.
 * The file is not trusted; one that is no ELF file has no segments. Daemon; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_SEGMENTS_MAX 16u /* executable ones; linkers make one, those that sort code some more */

struct kp_segment {
	uint64_t offset, bytes; /* in the file */
	uint64_t address; /* p_vaddr, of offset */
};

struct kp_segments {
	struct kp_segment segment[KP_SEGMENTS_MAX];
	uint32_t count;
};

void kp_segments_read(struct kp_segments *ret, int fd);
void kp_segments_of_image(struct kp_segments *ret, const void *image, size_t size);

/*
 * The address, in the file's numbering, of the first byte of a mapping that starts at file_offset.
 * The kernel maps whole pages: it may lie before its segment. False where no executable segment is
 * mapped so.
 */
bool kp_segments_address(const struct kp_segments *segments, uint64_t file_offset, uint64_t *ret);
