/*
 * gzip (RFC 1952) through zlib's deflate. Runs in the daemon.
 */
#include "daemon/render/gzip.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

struct kp_gzip {
	z_stream stream;
	FILE *out;
	unsigned char buffer[1 << 15];
};

int kp_gzip_create(FILE *out, struct kp_gzip **ret, struct kp_err *err)
{
	struct kp_gzip *z = calloc(1, sizeof(*z));

	if (!z)
		return kp_fail_nomem(err);
	z->out = out;
	/* 15 bits of window, + 16: a gzip header, which zlib writes without time and name. */
	if (deflateInit2(&z->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(z);
		return kp_fail_nomem(err);
	}
	*ret = z;
	return 0;
}

/* Feeds what the stream's next_in has, to the last byte that comes out now. */
static int run(struct kp_gzip *z, int flush, struct kp_err *err)
{
	do {
		size_t bytes;

		z->stream.next_out = z->buffer;
		z->stream.avail_out = sizeof(z->buffer);
		/* Fails only on wrong use: the buffers are valid and finish comes last. */
		deflate(&z->stream, flush);
		bytes = sizeof(z->buffer) - z->stream.avail_out;
		if (fwrite(z->buffer, 1, bytes, z->out) != bytes)
			return kp_fail_errno(err, "cannot write");
	} while (z->stream.avail_out == 0);
	return 0;
}

int kp_gzip_write(struct kp_gzip *z, const void *data, size_t size, struct kp_err *err)
{
	const unsigned char *at = data;

	while (size > 0) {
		uInt bytes = size < UINT_MAX ? (uInt)size : UINT_MAX;
		int r;

		z->stream.next_in = (unsigned char *)(uintptr_t)at; /* only read */
		z->stream.avail_in = bytes;
		r = run(z, Z_NO_FLUSH, err);
		if (r < 0)
			return r;
		at += bytes;
		size -= bytes;
	}
	return 0;
}

int kp_gzip_finish(struct kp_gzip *z, struct kp_err *err)
{
	z->stream.avail_in = 0;
	return run(z, Z_FINISH, err);
}

void kp_gzip_destroy(struct kp_gzip *z)
{
	if (!z)
		return;
	deflateEnd(&z->stream);
	free(z);
}
