/*
 * A raw profile built in memory, aligned as the reader wants it. Test code.
 */
#pragma once

#include "proto/rawfile.h"

#include <stdlib.h>
#include <string.h>

struct raw_memory {
	uint64_t words[8192];
	size_t size;
	struct kp_raw_writer writer;
	struct kp_err err;
};

static inline int raw_memory_write(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	struct raw_memory *m = ctx;

	if (size > sizeof(m->words) - m->size)
		return kp_fail_nomem(err);
	memcpy((char *)m->words + m->size, data, size);
	m->size += size;
	return 0;
}

/* The file header and nothing more. */
static inline struct raw_memory *raw_memory_create(void)
{
	struct raw_memory *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->writer = (struct kp_raw_writer){ raw_memory_write, m };
	if (kp_raw_put_header(&m->writer, &m->err) < 0)
		abort();
	return m;
}
