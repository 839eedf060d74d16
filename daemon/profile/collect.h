/*
 * Raw profile -> profile core: PCs are deduplicated per module, named by the symbolizer, and each
 * stack is interned. The sampling collector; other collectors fill a struct kp_profile likewise.
 */
#pragma once

#include "common/err.h"
#include "daemon/profile/profile.h"
#include "daemon/symbol/pin.h"
#include "daemon/symbol/symbolizer.h"

#include <stddef.h>

/* Takes one line of text for the user (no newline): progress of long work, or a remark. */
typedef void (*kp_say_fn)(void *ctx, const char *line);

struct kp_collect_options {
	const char *name; /* of the raw profile, for messages */
	const struct kp_pins *pins; /* may be NULL */
	const char *const *debug_dirs; /* see struct kp_symbolizer_options */
	const char *sysroot; /* likewise */
	kp_say_fn remark; /* may be NULL: why a module has no names, where a file was cut */
	struct kp_cache *names; /* of kp_answer_cache_kind: names of earlier times; may be NULL */
	bool system_calls; /* those that leaves are in are frames too: "[syscall:futex]" */
	uint64_t symbol_budget_ns; /* for names; 0: no limit */
	uint64_t fetch_ns; /* for files from debuginfod servers; 0: the network is not used */
	kp_say_fn fetched; /* may be NULL: what was fetched, and what not */
	kp_symbolizer_progress_fn progress; /* of names; may be NULL */
	void *ctx;
};

/*
 * data: a raw profile in memory, 8-aligned. A file that is cut off or damaged in the middle gives
 * a profile of what came before, and a remark that names the offset. < 0: not a raw profile at
 * all, or out of memory.
 *
 * Values are samples/count and cpu/nanoseconds, in this order; the second is the default. Where
 * threads that wait were sampled too it is samples, wall and cpu: wall is the default, time on a CPU
 * counts as both.
 */
int kp_collect(const void *data, size_t size, const struct kp_collect_options *options,
	       struct kp_profile **ret, struct kp_err *err);
