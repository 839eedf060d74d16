/*
 * Unit tests of the closing lines: every figure where it is known, no figure where it is not.
 */
#include "daemon/render/render.h"
#include "tests/support/test.h"
#include "tests/unit/render/maker.h"

#include <string.h>

#define S UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static struct maker m;
static struct kp_truth *t;

/* The session of the design's example. */
static void begin(void)
{
	maker_init(&m);
	t = &m.p->truth;
	maker_clock(&m, "task-clock", 23, S / 999);
	maker_clock(&m, "cpu-timer", 23, 4 * MS);
	t->main_comm = maker_string(&m, "redis-server");
	t->threads_seen = 4;
	t->window_ns = 10 * S;
	t->cpu_ns = 8270 * MS;
	t->explained_ns = 8212 * MS;
	t->rate_mhz = 999000;
	t->kept = t->taken = 8214;
	t->overruns = 31;
	t->truncated = 3;
	t->frames = 100000;
	t->unnamed_frames = 200;
	t->stop_attach_ns = 160000;
	t->stop_detach_ns = 110000;
	t->own_cpu_ns = 40 * MS;
	t->why = KP_END_TIME;
}

static void expect(const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	kp_render_truth(m.p, "kitprof", out);
	fclose(out);
	cr_assert_str_eq(text, expected);
	free(text);
	maker_deinit(&m);
}

#define SAMPLES                                                                                    \
	"kitprof: 8214 samples of redis-server (4 threads) in 10.00 s, asked 999 Hz, got 997 "     \
	"(task-clock + cpu-timer, SIGURG)\n"
#define EXPLAINED                                                                                  \
	"kitprof: explained 99.3 % of 8.27 s CPU; dropped 0, truncated 3, unnamed frames 0.2 %\n"
#define COST                                                                                       \
	"kitprof: target stopped 0.16 ms to attach, 0.11 ms to detach; sampling cost 0.4 % of a "  \
	"CPU\n"

Test(truth, is_three_lines)
{
	begin();
	expect(SAMPLES EXPLAINED COST);
}

Test(truth, warns_of_dropped_samples_with_the_remedy)
{
	begin();
	t->taken = 8337;
	t->dropped_full = 100;
	t->dropped_cap = 20;
	t->abandoned = 3;
	expect(SAMPLES
	       "kitprof: explained 99.3 % of 8.27 s CPU; dropped 123, truncated 3, unnamed frames "
	       "0.2 %\n" COST "kitprof: warning: 123 of 8337 samples were dropped (ring full 100, "
	       "cap 20, abandoned "
	       "3): shares are those of the others; lower --rate to keep all\n");
}

Test(truth, says_that_the_cap_was_reached)
{
	begin();
	t->why = KP_END_FULL;
	t->window_ns = 3210 * MS;
	t->own_cpu_ns = t->stop_attach_ns = t->stop_detach_ns = 0;
	expect("kitprof: 8214 samples of redis-server (4 threads) in 3.21 s, asked 999 Hz, got 997 "
	       "(task-clock + cpu-timer, SIGURG)\n" EXPLAINED
	       "kitprof: buffer_full: --cap 8214 reached after 3.21 s; the window ends there\n");
}

Test(truth, says_that_the_target_took_the_signal)
{
	begin();
	t->why = KP_END_HANDLER;
	expect(SAMPLES EXPLAINED COST
	       "kitprof: the target took the sampling signal for itself after 10.00 s; the window "
	       "ends there\n");
}

Test(truth, counts_threads_without_a_clock)
{
	begin();
	t->threads_unsampled = 2;
	t->stop_detach_ns = 0;
	t->own_cpu_ns = 0;
	expect(SAMPLES "kitprof: explained 99.3 % of 8.27 s CPU; dropped 0, truncated 3, unnamed "
		       "frames 0.2 "
		       "%; 2 threads could not be sampled\n"
		       "kitprof: target stopped 0.16 ms to attach\n");
}

Test(truth, does_not_claim_what_it_does_not_know)
{
	maker_init(&m);
	t = &m.p->truth;
	t->kept = t->taken = 1;
	t->explained_ns = 10 * MS;
	expect("kitprof: 1 sample of [unknown]\n"
	       "kitprof: explained 0.01 s CPU (how much was used is not known); dropped 0, "
	       "truncated "
	       "0, unnamed frames 0.0 %\n"
	       "kitprof: the raw profile has no end: the session was interrupted\n");
}

Test(truth, of_no_samples_gives_a_hint)
{
	begin();
	t->kept = t->taken = 0;
	t->cpu_ns = 0;
	t->clock_count = 1;
	t->clock[0].signal = 27;
	expect("kitprof: no samples of redis-server (4 threads) in 10.00 s, asked 999 Hz "
	       "(task-clock, SIGPROF)\n"
	       "kitprof: it hardly ran, and only running code is sampled: profile it while it has "
	       "work, or for longer (-d)\n" COST);
	begin();
	t->kept = t->taken = 0;
	t->rate_mhz = 99500;
	t->clock[1].signal = 36;
	expect("kitprof: no samples of redis-server (4 threads) in 10.00 s, asked 99.500 Hz "
	       "(task-clock + cpu-timer, SIGURG, SIGRTMIN+2)\n"
	       "kitprof: it ran, but no clock of it ticked: see `kitprof sources`, or try another "
	       "--signal\n" COST);
}

Test(truth, keeps_a_hostile_name_on_its_line)
{
	begin();
	t->main_comm = maker_string(&m, "evil\n\x1b[2J");
	expect("kitprof: 8214 samples of evil  [2J (4 threads) in 10.00 s, asked 999 Hz, got 997 "
	       "(task-clock + cpu-timer, SIGURG)\n" EXPLAINED COST);
}
