/*
 * Sites: the distinct places in code that samples name, each looked up once however often it was
 * sampled. A site is an address in a module (or in none).
 */
#pragma once

#include "daemon/profile/index.h"
#include "daemon/profile/jit.h"
#include "daemon/profile/presence.h"
#include "daemon/profile/replay.h"
#include "daemon/symbol/frame.h"
#include "daemon/symbol/pin.h"
#include "daemon/symbol/symbolizer.h"

struct kp_site {
	uint32_t module; /* of the replay; 0: in none */
	uint32_t file; /* the symbolizer's number, after kp_sites_resolve(); UINT32_MAX: none */
	uint64_t address; /* leaf: PC; caller: return address - 1 */
	struct kp_frames frames; /* after kp_sites_resolve(); count 0 where nothing is known */
	uint32_t location; /* of the profile; the collector's, 0 at first */
	uint32_t system_call; /* likewise: the location that stands for the call in it */
	bool system_call_known;
};

/* All zero is an empty set. */
struct kp_sites {
	struct kp_site *site;
	uint32_t count, capacity;
	struct kp_index index;
};

void kp_sites_deinit(struct kp_sites *s);

/* The site, added if it is new. Valid until the next call. 0 or -KP_ENOMEM. */
int kp_sites_get(struct kp_sites *s, uint32_t module, uint64_t address, struct kp_site **ret,
		 struct kp_err *err);

/* Called once for each file that sites lie in, after all look-ups, with its number. */
typedef void (*kp_sites_done_fn)(void *ctx, uint32_t symbol_module);

/* How the sites are looked up. */
struct kp_sites_options {
	const struct kp_pins *pins; /* may be NULL */
	const struct kp_symbolizer_limits *limits;
	const struct kp_symbolizer_fetch *fetch; /* NULL: nothing is fetched */
	const struct kp_presence *presence; /* for fetch: what is worth it */
	kp_sites_done_fn done;
	void *ctx;
};

/*
 * Looks all sites up, and those in no file in jit. The frames live as long as the symbolizer and
 * jit. Only out of memory is a failure; what has no name keeps count 0, and *ret says how much of
 * it was not even looked for.
 */
int kp_sites_resolve(struct kp_sites *s, const struct kp_replay *replay, const struct kp_jit *jit,
		     struct kp_symbolizer *symbolizer, const struct kp_sites_options *options,
		     struct kp_symbolizer_rest *ret, struct kp_err *err);
