/*
 * The executable mappings of a target: written to the raw profile when first seen, their files
 * pinned. By reading /proc/PID/maps; runs in the session loop.
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/maps.h"
#include "daemon/symbol/pin.h"
#include "proto/rawfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_known_module {
	uint64_t start, end, offset, inode, dev;
	bool anon; /* no file is behind it, nor is it the vdso */
	const void *mark; /* what the kp_module_found_fn made of it; NULL: nothing */
};

/* A module that is new, while its content is at hand. */
struct kp_module_found {
	const char *name; /* its path, or "[vdso]" */
	int fd; /* of its file, or -1 */
	const void *image; /* if there is no file: its content */
	size_t image_bytes;
	const uint8_t *build_id;
	size_t build_id_len;
};

/* Returns what is kept with the module as long as it is mapped. */
typedef const void *(*kp_module_found_fn)(void *ctx, const struct kp_module_found *found);

struct kp_modules {
	pid_t pid;
	pid_t live; /* a thread of it that has memory, as of the last scan */
	struct kp_raw_writer *writer;
	struct kp_pins *pins;
	const struct kp_maps *maps; /* while a scan goes on, else NULL */
	struct kp_known_module *module; /* of the last scan that worked, ascending */
	size_t count;
	bool has_anon; /* code that no file is behind, as JIT compilers make it, was seen */
	uint64_t skip_base, skip_end; /* the agent's own mapping: not the target's */
	kp_module_found_fn found; /* NULL: nobody wants to know */
	void *found_ctx;
	bool told; /* they are not looked at: kp_modules_add() */
	bool changed; /* set when the list is not what it was; whoever uses it takes it back */
};

void kp_modules_init(struct kp_modules *modules, pid_t pid, struct kp_raw_writer *writer,
		     struct kp_pins *pins);
void kp_modules_deinit(struct kp_modules *modules);

/*
 * Reads the map and writes a MODULE record for what is new, and an IMAGE for the vdso and for files
 * that cannot be opened, once for all processes. A target that is gone changes nothing. *ret_new: how many were new; may be NULL.
 */
int kp_modules_scan(struct kp_modules *modules, size_t *ret_new, struct kp_err *err);

/*
 * One that somebody has told of: it takes the place of what was there, and a MODULE record is
 * written, but no IMAGE: the vdso of those that are scanned is the same. For a process that is not
 * scanned; it may be gone.
 */
int kp_modules_add(struct kp_modules *modules, const struct kp_map *map, struct kp_err *err);

/* The module of the last scan that has the address, or NULL. */
const struct kp_known_module *kp_modules_find(const struct kp_modules *modules, uint64_t pc);

/* Whether the address is in a module of the last scan. */
bool kp_modules_contain(const struct kp_modules *modules, uint64_t pc);
