/*
 * A gzip stream into a FILE. Without time and name in its header: the same bytes in give the same
 * bytes out (with the same zlib).
 */
#pragma once

#include "common/err.h"

#include <stddef.h>
#include <stdio.h>

struct kp_gzip;

/* out is borrowed until kp_gzip_destroy(). */
int kp_gzip_create(FILE *out, struct kp_gzip **ret, struct kp_err *err);
int kp_gzip_write(struct kp_gzip *z, const void *data, size_t size, struct kp_err *err);

/* Writes what is left and the trailer; nothing may be written afterwards. */
int kp_gzip_finish(struct kp_gzip *z, struct kp_err *err);

void kp_gzip_destroy(struct kp_gzip *z);
