/*
 * Sites -> locations of the profile: mapping, functions and lines; and a made-up name where the
 * symbolizer has none, so that unknown code is shown and never left out.
 */
#pragma once

#include "daemon/profile/profile.h"
#include "daemon/profile/replay.h"
#include "daemon/profile/sites.h"

/* The profile's mapping of a module (0: none). 0 or -KP_ENOMEM. */
int kp_locate_module(struct kp_profile *p, const struct kp_replay *replay, uint32_t module,
		     uint32_t *ret, struct kp_err *err);

/*
 * The location of a resolved site, made at the first call and kept in the site. Names: as the
 * symbolizer has them; "[libc.so.6+0x1234]" (the address that addr2line takes) in a module without;
 * "[anon]" in executable memory that no file is behind, as JIT compilers make it; "[unknown]" in
 * no module. The last two bear no address: it would differ in each run.
 */
int kp_locate_site(struct kp_profile *p, const struct kp_replay *replay, struct kp_site *site,
		   uint32_t *ret, struct kp_err *err);

/*
 * What stands for the system call that a thread was in at the site, as the location of a frame of its
 * own: "[syscall:futex]"; "[syscall:451]" where the number has no name here, "[syscall]" where the
 * code does not say it. 0: it was in none. machine: e_machine of the profile.
 */
int kp_locate_system_call(struct kp_profile *p, const struct kp_replay *replay,
			  const struct kp_symbolizer *symbolizer, uint16_t machine,
			  struct kp_site *site, uint32_t *ret, struct kp_err *err);

/* The location "[truncated]": stands at the root of a stack whose callers are not known. */
int kp_locate_truncated(struct kp_profile *p, uint32_t *ret, struct kp_err *err);

/* The out-of-line function at a location: the last of its lines. */
const struct kp_function *kp_locate_outer(const struct kp_profile *p, uint32_t location);
