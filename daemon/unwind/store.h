/*
 * The unwind tables of modules, each once, whoever maps the module. What is not known is looked for
 * on disk (cache.h); what is not there is built by a worker (build_worker.h) while the caller goes
 * on.
 *
 * A module is known by its build id, if its file belongs to root or to this user and nobody else
 * can write to it; that id is what the file says of itself, and a stranger's shall not pass for
 * libc. Any other file is known by device, inode, size and time of modification, and not kept on
 * disk; an image (vdso) by its content. Session loop; not thread-safe.
 */
#pragma once

#include "common/err.h"
#include "common/unwind/table.h"
#include "daemon/unwind/segments.h"
#include "daemon/unwind/build_worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_STORE_MODULES_MAX 8192u
#define KP_STORE_BYTES_MAX (UINT64_C(1) << 30) /* of all tables */
#define KP_STORE_TIMEOUT_MS 10000u /* for one module */

#define KP_STORE_CACHE_BYTES (UINT64_C(512) << 20) /* on disk */

struct kp_store;

/* Tables, as the cache has them. */
extern const struct kp_cache_kind kp_store_cache_kind;

enum kp_stored_state {
	KP_STORED_BUILDING = 0,
	KP_STORED_READY = 1,
	KP_STORED_NONE = 2, /* and there will be none */
};

/* A module's table. Lives as long as the store; changes in kp_store_turn() alone. */
struct kp_stored {
	enum kp_stored_state state;
	uint32_t number; /* counted from 0 by the store: index for what a user keeps of it */
	const void *data; /* READY: the table, checked by kp_table_open() */
	uint64_t off; /* of it in kp_store_tables_fd() */
	uint64_t bytes;
	struct kp_table table;
	struct kp_segments segments;
	char why[512]; /* NONE: the reason; "" where the file says nothing about unwinding */
};

struct kp_store_options {
	uint16_t machine; /* e_machine of the targets */
	struct kp_cache *cache; /* taken over; NULL: none */
	kp_build_fn build; /* kp_unwind_build(), but for tests */
	uint32_t timeout_ms; /* 0: KP_STORE_TIMEOUT_MS */
	const char *memory_name; /* as of kp_table_area_init(); NULL: some */
	uint64_t memory_empty;
};

int kp_store_create(const struct kp_store_options *options, struct kp_store **ret,
		    struct kp_err *err);

/*
 * If a worker still builds for the cache it gets half a second, so that programs which are over
 * sooner than that find their tables next time.
 */
void kp_store_destroy(struct kp_store *store);

/*
 * The table of a file that is mapped somewhere. fd: open for reading, borrowed. name: for messages.
 * NULL: out of memory.
 */
const struct kp_stored *kp_store_file(struct kp_store *store, int fd, const char *name,
				      const uint8_t *build_id, size_t build_id_len);

/* The same for an ELF image that is no file; it is copied. */
const struct kp_stored *kp_store_image(struct kp_store *store, const void *image, size_t bytes,
				       const char *name);

/* The memory that all tables are in (area.h); owned by the store, only to be read. */
int kp_store_tables_fd(const struct kp_store *store);

/* To be polled for POLLIN: kp_store_turn() has something to do. Changes; -1: nothing goes on. */
int kp_store_fd(const struct kp_store *store);

/* Takes what is built, starts what is not. Does not wait. How many are not BUILDING any more. */
size_t kp_store_turn(struct kp_store *store);

/* Turns until nothing is BUILDING, or timeout_ms are over: then false. */
bool kp_store_wait(struct kp_store *store, uint32_t timeout_ms);

/* Grows whenever a module is not BUILDING any more. */
uint64_t kp_store_changes(const struct kp_store *store);

/* CPU time of the workers so far, as far as they have ended. */
uint64_t kp_store_cpu_ns(const struct kp_store *store);
