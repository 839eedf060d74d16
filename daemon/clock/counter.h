/*
 * Whether a hardware counter counts. A hypervisor may claim one that stands still, one that counts
 * may never interrupt, and others may hold it: so it is tried before it is a clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum kp_counter_state {
	KP_COUNTER_UNASKED = 0,
	KP_COUNTER_ALIVE, /* it counts and overflows, all the time */
	KP_COUNTER_ABSENT, /* there is none */
	KP_COUNTER_DENIED, /* the system does not let us */
	KP_COUNTER_DEAD, /* it is there and stands still */
	KP_COUNTER_MUTE, /* it counts, but its overflow never comes */
	KP_COUNTER_SHARED, /* others take it part of the time, or all of it */
};

struct kp_counter_proof {
	enum kp_counter_state state;
	uint64_t per_ms; /* ALIVE: counts per millisecond of CPU time in user mode */
	char why[256]; /* not ALIVE: one sentence, without a full stop */
};

/* What the proof does to a counter of the calling thread; tests give one of their own. */
struct kp_counter_reading {
	uint64_t count;
	uint64_t wanted_ns, had_ns; /* time that the event was enabled, and that it had a counter */
	bool overflowed; /* at least once so far */
};
struct kp_counter_ops {
	int (*open)(void *ctx); /* and the following: 0, or -errno */
	int (*enable)(void *ctx);
	int (*read)(void *ctx, struct kp_counter_reading *ret);
	uint64_t (*cpu_ns)(void *ctx); /* CPU time of the calling thread */
	void (*burn)(void *ctx); /* some 100 us of it, in user mode */
	void (*close)(void *ctx);
};

/*
 * Takes KP_COUNTER_LOOK_NS of the caller's CPU time and no more than a burn() beyond it; less where
 * there is nothing to look at. CPU time, because a thread's counter stands still while others run.
 */
#define KP_COUNTER_LOOK_NS UINT64_C(10000000)
void kp_counter_prove(const struct kp_counter_ops *ops, void *ctx, struct kp_counter_proof *ret);

/* kp_counter_prove() with this machine's cycles counter. */
void kp_cycles_prove(struct kp_counter_proof *ret);
