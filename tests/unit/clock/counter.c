/*
 * Unit tests of the proof that a hardware counter counts. The counter is played by the test: time
 * passes in burn() and a little with each look at the clock.
 */
#include "daemon/clock/counter.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

#define BURN_NS UINT64_C(100000)
#define LOOK_NS UINT64_C(500)

struct counter {
	/* how it behaves */
	int open_result, enable_result, read_result;
	uint64_t moves_after_ns; /* UINT64_MAX: never */
	uint64_t per_us;
	uint64_t overflows_at; /* count; UINT64_MAX: never */
	unsigned had_percent;
	uint64_t slow_from_ns, slow_until_ns; /* at half speed in between */
	/* what happened */
	uint64_t cpu_ns, counted, wanted_ns;
	bool enabled, closed;
	unsigned reads;
};

static struct counter alive(void)
{
	return (struct counter){ .per_us = 3000, .overflows_at = 500000, .had_percent = 100 };
}

static bool is_slow(const struct counter *c)
{
	return c->cpu_ns >= c->slow_from_ns && c->cpu_ns < c->slow_until_ns;
}

static void pass(struct counter *c, uint64_t ns)
{
	c->cpu_ns += ns;
	if (!c->enabled)
		return;
	c->wanted_ns += ns;
	if (c->cpu_ns > c->moves_after_ns)
		c->counted += c->per_us * ns / 1000 / (is_slow(c) ? 2 : 1);
}

static int open_counter(void *ctx)
{
	return ((struct counter *)ctx)->open_result;
}

static int enable_counter(void *ctx)
{
	struct counter *c = ctx;

	c->enabled = c->enable_result == 0;
	return c->enable_result;
}

static int read_counter(void *ctx, struct kp_counter_reading *ret)
{
	struct counter *c = ctx;

	c->reads++;
	ret->count = c->counted;
	ret->wanted_ns = c->wanted_ns;
	ret->had_ns = c->wanted_ns * c->had_percent / 100;
	ret->overflowed = c->counted >= c->overflows_at;
	return c->read_result;
}

static uint64_t cpu_ns(void *ctx)
{
	struct counter *c = ctx;

	c->cpu_ns += LOOK_NS; /* a system call: not user mode */
	return c->cpu_ns;
}

static void burn(void *ctx)
{
	pass(ctx, BURN_NS);
}

static void close_counter(void *ctx)
{
	((struct counter *)ctx)->closed = true;
}

static struct kp_counter_proof prove(struct counter *counter)
{
	static const struct kp_counter_ops ops = { .open = open_counter,
						   .enable = enable_counter,
						   .read = read_counter,
						   .cpu_ns = cpu_ns,
						   .burn = burn,
						   .close = close_counter };
	struct kp_counter_proof proof;

	memset(&proof, 0x55, sizeof(proof));
	kp_counter_prove(&ops, counter, &proof);
	return proof;
}

/* A proof that failed with that state and reason; nothing stays open. */
static void expect(struct counter counter, enum kp_counter_state state, const char *why)
{
	struct kp_counter_proof proof = prove(&counter);

	cr_assert_eq(proof.state, state);
	cr_assert_not_null(strstr(proof.why, why), "%s", proof.why);
	cr_assert_eq(proof.per_ms, 0);
	cr_assert_eq(counter.closed, counter.open_result == 0);
}

Test(counter, that_counts_is_alive_and_its_speed_known)
{
	struct counter counter = alive();
	struct kp_counter_proof proof = prove(&counter);

	cr_assert_eq(proof.state, KP_COUNTER_ALIVE);
	cr_assert_str_eq(proof.why, "");
	/* The looks at the clock cost a little. */
	cr_assert_geq(proof.per_ms, 2970000);
	cr_assert_leq(proof.per_ms, 3000000);
	cr_assert(counter.closed);
}

Test(counter, speed_is_that_of_the_fastest_stretch)
{
	struct counter counter = alive();

	counter.slow_until_ns = KP_COUNTER_LOOK_NS / 2;
	cr_assert_geq(prove(&counter).per_ms, 2970000);
	counter = alive();
	counter.slow_from_ns = KP_COUNTER_LOOK_NS / 2;
	counter.slow_until_ns = UINT64_MAX;
	cr_assert_geq(prove(&counter).per_ms, 2970000);
}

Test(counter, that_starts_late_is_waited_for)
{
	struct counter counter = alive();

	counter.moves_after_ns = KP_COUNTER_LOOK_NS / 2;
	cr_assert_eq(prove(&counter).state, KP_COUNTER_ALIVE);
}

Test(counter, that_never_moves_is_dead_after_a_bounded_time)
{
	struct counter counter = alive();

	counter.moves_after_ns = UINT64_MAX;
	expect(counter, KP_COUNTER_DEAD, "does not count");
	prove(&counter);
	cr_assert_geq(counter.cpu_ns, KP_COUNTER_LOOK_NS);
	cr_assert_leq(counter.cpu_ns, KP_COUNTER_LOOK_NS + 2 * BURN_NS);
	/* The time decides, not the number of looks. */
	cr_assert_leq(counter.reads, KP_COUNTER_LOOK_NS / BURN_NS + 1);
}

Test(counter, that_is_not_there_is_absent)
{
	static const int codes[] = { ENOENT, ENODEV, EOPNOTSUPP, ENOSYS };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct counter counter = alive();

		counter.open_result = -codes[i];
		expect(counter, KP_COUNTER_ABSENT, "no hardware cycles counter");
	}
}

Test(counter, that_is_forbidden_is_denied)
{
	struct counter counter = alive();

	counter.open_result = -EACCES;
	expect(counter, KP_COUNTER_DENIED, "not allowed");
	counter.open_result = -EPERM;
	expect(counter, KP_COUNTER_DENIED, "not allowed");
	counter.open_result = -EMFILE;
	expect(counter, KP_COUNTER_DENIED, strerror(EMFILE));
}

Test(counter, failure_after_it_was_opened_is_told_and_it_is_closed)
{
	struct counter counter = alive();

	counter.enable_result = -EIO;
	expect(counter, KP_COUNTER_DENIED, strerror(EIO));
	counter = alive();
	counter.read_result = -EIO;
	expect(counter, KP_COUNTER_DENIED, strerror(EIO));
}

Test(counter, that_does_not_interrupt_is_mute)
{
	struct counter counter = alive();

	counter.overflows_at = UINT64_MAX;
	expect(counter, KP_COUNTER_MUTE, "does not interrupt");
}

Test(counter, that_others_have_most_of_the_time_is_shared)
{
	struct counter counter = alive();

	counter.had_percent = 60;
	expect(counter, KP_COUNTER_SHARED, "in use by others");
	/* Never had at all: it did not move either, but it is not dead. */
	counter.had_percent = 0;
	counter.moves_after_ns = UINT64_MAX;
	expect(counter, KP_COUNTER_SHARED, "in use by others");
	counter = alive();
	counter.had_percent = 96;
	cr_assert_eq(prove(&counter).state, KP_COUNTER_ALIVE);
}
