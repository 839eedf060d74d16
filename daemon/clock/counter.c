/* The proof that a hardware counter counts: counter.h. Daemon; touches nobody but the caller. */
#include "daemon/clock/counter.h"

#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HAD_MIN_PERCENT 95 /* of the time that it was wanted */

static void conclude(struct kp_counter_proof *ret, enum kp_counter_state state, const char *why)
{
	ret->state = state;
	snprintf(ret->why, sizeof(ret->why), "%s", why);
}

static void conclude_failed(struct kp_counter_proof *ret, int code)
{
	switch (code) {
	case EACCES:
	case EPERM:
		conclude(ret, KP_COUNTER_DENIED, "hardware counters are not allowed");
		break;
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
	case ENOSYS:
		conclude(ret, KP_COUNTER_ABSENT,
			 "no hardware cycles counter (virtual machines often have none)");
		break;
	default:
		snprintf(ret->why, sizeof(ret->why),
			 "the hardware cycles counter cannot be opened (%s)", strerror(code));
		ret->state = KP_COUNTER_DENIED;
	}
}

/* What was seen in all. */
struct look {
	struct kp_counter_reading last;
	uint64_t per_ms; /* of the fastest stretch: interrupts and a slow start only take away */
};

/* Another stretch of CPU time, with the counter read before and after it. */
static int look_on(const struct kp_counter_ops *ops, void *ctx, struct look *look)
{
	uint64_t count = look->last.count, from = ops->cpu_ns(ctx), took, per_ms;
	int r;

	ops->burn(ctx);
	took = ops->cpu_ns(ctx) - from;
	r = ops->read(ctx, &look->last);
	if (r < 0 || took == 0 || look->last.count <= count)
		return r;
	per_ms = (uint64_t)((unsigned __int128)(look->last.count - count) * 1000000 / took);
	if (per_ms > look->per_ms)
		look->per_ms = per_ms;
	return 0;
}

static bool had_enough(const struct kp_counter_reading *r)
{
	return (unsigned __int128)r->had_ns * 100 >=
	       (unsigned __int128)r->wanted_ns * HAD_MIN_PERCENT;
}

static void judge(const struct look *look, struct kp_counter_proof *ret)
{
	if (!had_enough(&look->last))
		conclude(ret, KP_COUNTER_SHARED,
			 "the hardware counters are in use by others (perf, the NMI watchdog)");
	else if (!look->per_ms)
		conclude(ret, KP_COUNTER_DEAD,
			 "the hardware cycles counter does not count (a hypervisor may claim one "
			 "that it does "
			 "not have)");
	else if (!look->last.overflowed)
		conclude(ret, KP_COUNTER_MUTE,
			 "the hardware cycles counter counts, but does not interrupt when it "
			 "overflows");
	else
		*ret = (struct kp_counter_proof){ .state = KP_COUNTER_ALIVE,
						  .per_ms = look->per_ms };
}

void kp_counter_prove(const struct kp_counter_ops *ops, void *ctx, struct kp_counter_proof *ret)
{
	struct look look = { 0 };
	uint64_t start;
	int r = ops->open(ctx);

	*ret = (struct kp_counter_proof){ 0 };
	if (r < 0) {
		conclude_failed(ret, -r);
		return;
	}
	r = ops->enable(ctx);
	start = ops->cpu_ns(ctx);
	while (r == 0 && ops->cpu_ns(ctx) - start < KP_COUNTER_LOOK_NS)
		r = look_on(ops, ctx, &look);
	if (r < 0)
		conclude_failed(ret, -r);
	else
		judge(&look, ret);
	ops->close(ctx);
}
