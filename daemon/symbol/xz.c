/*
 * Streams of xz, measured: see xz.h. Runs in the daemon. "The .xz File Format" 1.1.0 (tukaani.org)
 * has the layout of streams and blocks; the chunks of LZMA2 are as in the decoder of the xz
 * distribution: each says how many bytes it stands for, and a decoder stops there. The index at
 * the end has the sizes as well, but nobody is bound by it before all is unpacked.
 */
#include "daemon/symbol/xz.h"

#include <stdbool.h>
#include <string.h>

#define HEADER_SIZE 12 /* of the stream */
#define FILTER_LZMA2 0x21
#define WINDOW_MAX 28 /* as the property byte has it: 64 MiB */

struct reader {
	const uint8_t *at, *end;
};

static size_t left(const struct reader *r)
{
	return (size_t)(r->end - r->at);
}

static bool skip(struct reader *r, size_t n)
{
	if (left(r) < n)
		return false;
	r->at += n;
	return true;
}

/* Bytes of the check behind each block, by the number of its kind. */
static size_t check_size(unsigned kind)
{
	static const uint8_t size[16] = { 0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64 };

	return size[kind];
}

static bool skip_number(struct reader *r)
{
	for (unsigned i = 0; i < 9 && left(r); i++)
		if (*r->at++ < 0x80)
			return true;
	return false;
}

/* A block's header: one filter, LZMA2, with a window that we grant. */
static bool read_block_header(struct reader *r)
{
	const uint8_t *header = r->at;
	size_t size = left(r) ? ((size_t)header[0] + 1) * 4 : 0;
	struct reader in;

	if (size < 8 || !skip(r, size) || (header[1] & 0x3f)) /* bits that say: sizes follow */
		return false;
	in = (struct reader){ header + 2, header + size };
	if ((header[1] & 0x40) && !skip_number(&in))
		return false;
	if ((header[1] & 0x80) && !skip_number(&in))
		return false;
	return left(&in) >= 3 && in.at[0] == FILTER_LZMA2 && in.at[1] == 1 &&
	       in.at[2] <= WINDOW_MAX;
}

static size_t big_endian(const uint8_t *p)
{
	return (size_t)p[0] << 8 | p[1];
}

/* 1: a chunk was added to *size; 0: that was the end; < 0: no chunk. */
static int read_chunk(struct reader *r, size_t *size)
{
	uint8_t control = left(r) ? *r->at++ : 0xff;
	size_t packed;

	if (control == 0)
		return 0;
	if (control <= 2 && left(r) >= 2) { /* as it is */
		packed = big_endian(r->at) + 1;
		*size += packed;
		return skip(r, 2 + packed) ? 1 : -1;
	}
	if (control < 0x80 || left(r) < 4)
		return -1;
	*size += ((size_t)(control & 0x1f) << 16) + big_endian(r->at) + 1;
	packed = big_endian(r->at + 2) + 1;
	return skip(r, 4 + (control >= 0xc0) + packed) ? 1 : -1;
}

/* The block's content, its padding and check. */
static bool read_block(struct reader *r, size_t check, size_t max, size_t *size)
{
	const uint8_t *start = r->at;
	int chunk;

	while ((chunk = read_chunk(r, size)) > 0)
		if (*size > max)
			return true; /* the caller sees it */
	return chunk == 0 && skip(r, -(size_t)(r->at - start) & 3) && skip(r, check);
}

int kp_xz_unpacked_size(const void *packed, size_t size, size_t max, size_t *ret,
			struct kp_err *err)
{
	static const uint8_t magic[8] = { 0xfd, '7', 'z', 'X', 'Z', 0, 0 };
	const uint8_t *bytes = packed;
	struct reader r = { bytes, bytes + size };
	size_t total = 0, check;

	if (size < HEADER_SIZE || memcmp(bytes, magic, 7) != 0 || bytes[7] > 0x0f)
		return kp_fail(err, KP_EBADDATA, "is no xz stream");
	check = check_size(bytes[7]);
	r.at += HEADER_SIZE;
	while (left(&r) && r.at[0]) { /* 0: the index follows */
		if (!read_block_header(&r))
			return kp_fail(err, KP_EBADDATA,
				       "is an xz stream that is damaged or of an unusual kind");
		if (!read_block(&r, check, max, &total))
			return kp_fail(err, KP_EBADDATA, "is a damaged xz stream");
		if (total > max)
			return kp_fail(err, KP_EBADDATA, "would be larger than %zu MiB unpacked",
				       max >> 20);
	}
	*ret = total;
	return 0;
}
