/* What a symbolizer holds: for those files of this folder that do its work. */
#pragma once

#include "daemon/symbol/answer_cache.h"
#include "daemon/symbol/arena.h"
#include "daemon/symbol/module.h"
#include "daemon/symbol/names.h"
#include "daemon/symbol/symbolizer.h"

struct kp_symbolizer {
	struct kp_arena arena; /* frames and strings */
	struct kp_names *names;
	const char **debug_dirs; /* NULL-terminated, in the arena, with room for one more */
	const char *sysroot; /* likewise, or NULL */
	struct kp_module **module;
	size_t count, capacity;
	struct kp_module *open; /* the one that may be open */
	unsigned workers;
	struct kp_cache *cache; /* or NULL; borrowed */
	struct kp_kept_answers *kept; /* what was handed out of it */
	size_t kept_count;
};

/*
 * What a worker answers where a module is asked about and not an address: a frame with a text for its
 * name, size bytes in the arena that the caller fills in. NULL: out of memory.
 */
char *kp_symbolizer_say(struct kp_symbolizer *s, size_t size, struct kp_frames *ret);
