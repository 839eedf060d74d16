/* Where an ELF file has its call frame information. */
#pragma once

#include "daemon/unwind/entries.h"

/* .eh_frame, by its section header or by the program header that the runtime goes by. */
bool kp_section_find_eh_frame(const struct kp_image *image, struct kp_entry_section *ret);

/*
 * .debug_frame. > 0: there is none, or none that is of use. *ret_owned is to be freed after use;
 * NULL where the bytes are the image's. -KP_ENOMEM, without words.
 */
int kp_section_find_debug_frame(const struct kp_image *image, struct kp_entry_section *ret,
				void **ret_owned);
