/* Private to session/: where the raw profile's bytes go. A file, or memory. */
#pragma once

#include "common/err.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_RAW_SINK_BUFFER 65536u

struct kp_raw_sink {
	struct kp_raw_writer writer; /* hands to this sink */
	int fd;
	const char *path; /* for messages, and to remove it again */
	bool started; /* something was written: until then an older file is left as it is */
	bool created; /* it did not exist before */
	size_t used;
	uint8_t buffer[KP_RAW_SINK_BUFFER];
};

/*
 * path NULL: an anonymous file in memory. An old file is overwritten from the first flush on, so
 * that a session that does not come about leaves it alone.
 */
int kp_raw_sink_open(struct kp_raw_sink *sink, const char *path, struct kp_err *err);

/* What is written is in the file afterwards: a reader sees whole records. */
int kp_raw_sink_flush(struct kp_raw_sink *sink, struct kp_err *err);

/* Flushes and maps the file, 8-aligned, private. */
int kp_raw_sink_map(struct kp_raw_sink *sink, void **ret, size_t *ret_size, struct kp_err *err);

void kp_raw_sink_close(struct kp_raw_sink *sink);
