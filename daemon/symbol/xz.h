/*
 * How large an xz stream is when it is unpacked, known before a byte of it is: a few bytes may
 * stand for gigabytes.
 */
#pragma once

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The size of what the first stream of packed holds. An unpacker that keeps to the format writes no
 * more than that. KP_EBADDATA where it would be more than max, where it would need a window of more
 * than 64 MiB (xz -9), and for streams with other filters than LZMA2.
 */
int kp_xz_unpacked_size(const void *packed, size_t size, size_t max, size_t *ret,
			struct kp_err *err);
