/*
 * A process that looks addresses up: a fork of the daemon, so that a damaged or hostile file costs
 * what it was asked of that file and nothing else. It has nothing of the daemon's but the modules'
 * files, reads orders, and sends one result for each, in order. It ends with the daemon. What it
 * sends comes from a process that hostile bytes may have taken over: it is doubted like a file.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What is done in a worker. The functions of the symbolizer, but for tests. */
struct kp_name_worker_work {
	/* As kp_symbolizer_resolve() for one offset. */
	int (*look_up)(void *ctx, uint32_t module, uint64_t offset, struct kp_frames *ret,
		       struct kp_err *err);
	/* As kp_symbolizer_note(). */
	const char *(*note)(void *ctx, uint32_t module);
	void *ctx;
	const int *fd; /* what it needs of the daemon's; -1 is none */
	size_t fd_count;
	uint64_t room_bytes; /* more than that it should not need: it is replaced by a new one */
};

#define KP_ORDER_MAX 1024u /* offsets in an order */
#define KP_ORDERS_MAX 2u /* that one worker has at a time */

/* In front of the offsets. */
struct kp_order {
	uint32_t module;
	uint32_t count;
};

/* In front of the answers (answers.h). */
struct kp_result {
	int32_t outcome; /* 0, or < 0: out of memory, and no answers */
	uint32_t last; /* it ends now, whatever it has been told to do besides */
	uint64_t bytes; /* of answers */
};

/* How far it is, in memory that both see: for who asks why it has died. */
struct kp_name_worker_place {
	uint32_t orders; /* done */
	uint32_t at; /* which of the order's offsets */
};

struct kp_name_worker {
	pid_t pid; /* 0: none */
	int fd; /* socket: to be polled */
	const struct kp_name_worker_place *place; /* volatile */
};

int kp_name_worker_start(const struct kp_name_worker_work *work, struct kp_name_worker *ret,
			 struct kp_err *err);

/* Does not wait: an order of KP_ORDERS_MAX at most has room. < 0: it is gone. */
int kp_name_worker_order(const struct kp_name_worker *worker, uint32_t module,
			 const uint64_t *offset, uint32_t count);

/* A copy of what it says. */
struct kp_name_worker_place kp_name_worker_where(const struct kp_name_worker *worker);

/* Kills it if it is still there, and waits for its end. The status of wait(2). */
int kp_name_worker_end(struct kp_name_worker *worker);
