/*
 * The closing lines of truth, see render.h. Only what is known is said; percentages never come
 * from the rate asked for. Runs in the daemon.
 *
 * The rate that was got is samples, each with the timer expirations that it stands for, per second
 * of CPU time that the target used: a clock of CPU time ticks only while a thread runs, and each
 * thread has its own. Where that time is not known (a file that was cut off) it is per second of
 * the window, and said so.
 */
#include "daemon/render/truth.h"

#include "daemon/render/render.h"
#include "daemon/render/signal_text.h"
#include "daemon/render/text.h"

#include <inttypes.h>
#include <string.h>

#define UNSAMPLED_SAID 3
#define SECOND_NS UINT64_C(1000000000)
#define MILLISECOND_NS UINT64_C(1000000)

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void put_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "%s s", kp_text_number(ns, SECOND_NS, 2).text);
}

static void put_name(FILE *out, const struct kp_profile *p)
{
	const char *name = p->strings[p->truth.main_comm];

	kp_text_put(out, *name ? name : "[unknown]", 0);
}

/* ---- the clock ---- */

static bool signal_is_new(const struct kp_truth *t, uint32_t clock)
{
	for (uint32_t i = 0; i < clock; i++) {
		if (t->clock[i].signal == t->clock[clock].signal)
			return false;
	}
	return t->clock[clock].signal != 0;
}

/* " (task-clock + cpu-timer, SIGURG)" */
static void put_clocks(FILE *out, const struct kp_profile *p)
{
	const struct kp_truth *t = &p->truth;

	if (!t->clock_count)
		return;
	fputs(" (", out);
	for (uint32_t i = 0; i < t->clock_count; i++) {
		if (i)
			fputs(" + ", out);
		kp_text_put(out, p->strings[t->clock[i].name], 0);
	}
	for (uint32_t i = 0; i < t->clock_count; i++) {
		if (signal_is_new(t, i)) {
			fputs(", ", out);
			fputs(kp_signal_text(t->clock[i].signal).text, out);
		}
	}
	putc(')', out);
}

struct kp_text_number kp_truth_rate_got(const struct kp_truth *t, unsigned int decimals)
{
	uint64_t base_ns = t->cpu_ns ? t->cpu_ns : t->window_ns;
	unsigned __int128 ticks = (unsigned __int128)(t->kept - t->waits) + t->overruns;

	if (!base_ns || t->kept == t->waits)
		return (struct kp_text_number){ "" };
	return kp_text_number(ticks * SECOND_NS, base_ns, decimals);
}

struct kp_text_number kp_truth_rate_asked(const struct kp_truth *t)
{
	return kp_text_number(t->rate_mhz, 1000, t->rate_mhz % 1000 ? 3 : 0);
}

static void put_rates(FILE *out, const struct kp_truth *t)
{
	struct kp_text_number got = kp_truth_rate_got(t, 0);

	if (t->rate_mhz)
		fprintf(out, ", asked %s Hz", kp_truth_rate_asked(t).text);
	if (*got.text)
		fprintf(out, ", got %s%s", got.text, t->cpu_ns ? "" : " a second of the window");
}

/* ---- the three lines ---- */

/* 8214 samples of redis-server (4 threads) in 10.00 s, asked 999 Hz, got 997 (...) */
static void put_samples(FILE *out, const struct kp_profile *p)
{
	const struct kp_truth *t = &p->truth;

	if (t->kept)
		fprintf(out, "%" PRIu64, t->kept);
	else
		fputs("no", out);
	fprintf(out, " sample%s of ", plural(t->kept));
	put_name(out, p);
	if (t->threads_seen)
		fprintf(out, " (%u thread%s)", t->threads_seen, plural(t->threads_seen));
	if (t->window_ns) {
		fputs(" in ", out);
		put_seconds(out, t->window_ns);
	}
	put_rates(out, t);
	put_clocks(out, p);
}

/* How much of it is not by the threads' own run times. Where that is all but all it is not said. */
static void put_directly(FILE *out, const struct kp_truth *t)
{
	uint64_t more = t->explained_ns > t->sampled_ns ? t->explained_ns - t->sampled_ns : 0;

	if (t->has_figures && more > t->cpu_ns / 100)
		fprintf(out, " (%s %% sampled, the rest by the threads' run times)",
			kp_text_percent(t->sampled_ns, t->cpu_ns, 1).text);
}

/* explained 99.3 % of 8.27 s CPU; dropped 0, truncated 3, unnamed frames 0.2 % */
static void put_explained(FILE *out, const struct kp_truth *t)
{
	fputs("explained ", out);
	if (t->cpu_ns) {
		fprintf(out, "%s %% of ", kp_text_percent(t->explained_ns, t->cpu_ns, 1).text);
		put_seconds(out, t->cpu_ns);
		fputs(" CPU", out);
		put_directly(out, t);
	} else {
		put_seconds(out, t->explained_ns);
		fputs(" CPU (how much was used is not known)", out);
	}
	if (t->wall) {
		fputs("; waited ", out);
		put_seconds(out, t->waited_ns);
	}
	fprintf(out, "; dropped %" PRIu64 ", truncated %" PRIu64 ", unnamed frames %s %%",
		t->taken - t->kept, t->truncated,
		kp_text_percent(t->unnamed_frames, t->frames, 1).text);
	/* Those that hardly used any CPU time have lost nothing that counts. */
	if (t->threads_unsampled && (t->unsampled_ns > t->cpu_ns / 1000 || !t->has_figures))
		fprintf(out, "; %u thread%s could not be sampled", t->threads_unsampled,
			plural(t->threads_unsampled));
}

/* What used CPU time and could not be sampled, by name. */
static void put_unsampled(const struct kp_profile *p, const char *prefix, FILE *out)
{
	const struct kp_truth *t = &p->truth;

	for (uint32_t i = 0; i < t->unsampled_count && i < UNSAMPLED_SAID; i++) {
		const struct kp_unsampled *thread = &t->unsampled[i];

		fprintf(out, "%sthread ", prefix);
		kp_text_put(out, p->strings[thread->name], 0);
		fprintf(out, " (%u) %s: ", thread->tid,
			thread->blocks ? "blocks the signal" : "was not sampled");
		put_seconds(out, thread->cpu_ns);
		fprintf(out, " CPU, %" PRIu64 " sample%s\n", thread->samples,
			plural(thread->samples));
	}
	if (t->missed) {
		fprintf(out, "%sended before they could be sampled: %u short-lived (", prefix,
			t->missed);
		put_seconds(out, t->missed_cpu_ns);
		fputs(" CPU)\n", out);
	}
	if (t->stops)
		fprintf(out,
			"%sstopped threads %" PRIu64 " times to sample them, %s ms in all%s%s\n",
			prefix, t->stops, kp_text_number(t->stops_ns, MILLISECOND_NS, 2).text,
			t->clamped_rate ? "; clamped to 1000 Hz" : "",
			t->clamped_time ? "; clamped to 60 s" : "");
}

static bool knows_cost(const struct kp_truth *t)
{
	return t->stop_attach_ns || t->stop_detach_ns || (t->own_cpu_ns && t->window_ns);
}

/* target stopped 0.16 ms to attach, 0.11 ms to detach; sampling cost 0.4 % of a CPU */
static void put_cost(FILE *out, const struct kp_truth *t)
{
	const char *between = "";

	if (t->stop_attach_ns || t->stop_detach_ns) {
		fprintf(out, "target stopped %s ms to attach",
			kp_text_number(t->stop_attach_ns, MILLISECOND_NS, 2).text);
		if (t->stop_detach_ns)
			fprintf(out, ", %s ms to detach",
				kp_text_number(t->stop_detach_ns, MILLISECOND_NS, 2).text);
		between = "; ";
	}
	if (t->own_cpu_ns && t->window_ns)
		fprintf(out, "%ssampling cost %s %% of a CPU", between,
			kp_text_percent(t->own_cpu_ns, t->window_ns, 1).text);
}

/* ---- what went wrong ---- */

static void put_part(FILE *out, const char *what, uint64_t n, bool *first)
{
	if (!n)
		return;
	fprintf(out, "%s%s %" PRIu64, *first ? "" : ", ", what, n);
	*first = false;
}

static void put_dropped(FILE *out, const struct kp_truth *t)
{
	bool first = true;

	fprintf(out, "warning: %" PRIu64 " of %" PRIu64 " samples were dropped (",
		t->taken - t->kept, t->taken);
	put_part(out, "ring full", t->dropped_full, &first);
	put_part(out, "cap", t->dropped_cap, &first);
	put_part(out, "abandoned", t->abandoned, &first);
	put_part(out, "bad", t->bad, &first);
	fputs("): shares are those of the others", out);
	if (t->dropped_full)
		fputs("; lower --rate to keep all", out);
	else if (t->dropped_cap)
		fputs("; raise --cap to keep all", out);
}

static void put_ending(FILE *out, const struct kp_truth *t, const char *prefix)
{
	const char *after = "";

	if (t->why == KP_END_FULL)
		/* The cap counts every place in the ring that was given out. */
		fprintf(out, "%sbuffer_full: --cap %" PRIu64 " reached", prefix,
			t->kept + t->abandoned + t->bad);
	else if (t->why == KP_END_HANDLER)
		fprintf(out, "%sthe target took the sampling signal for itself", prefix);
	else if (t->why == KP_END_CUT_OFF)
		fprintf(out, "%sthe raw profile has no end: the session was interrupted", prefix);
	else
		return;
	if (t->window_ns) {
		fputs(" after ", out);
		put_seconds(out, t->window_ns);
		after = "; the window ends there";
	}
	fprintf(out, "%s\n", after);
}

/* Why there may be nothing, and what helps. */
static void put_hint(FILE *out, const struct kp_truth *t)
{
	if (t->taken)
		fputs("all samples were dropped", out);
	else if (t->cpu_ns >= SECOND_NS / 10)
		fputs("it ran, but no clock of it ticked: see `kitprof sources`, or try another "
		      "--signal",
		      out);
	else
		fputs("it hardly ran, and only running code is sampled: profile it while it has "
		      "work, or for longer (-d)",
		      out);
}

/* Addresses that were not even looked up. */
static void put_rest(FILE *out, const struct kp_truth *t, const char *prefix)
{
	if (t->names_late)
		fprintf(out,
			"%s%" PRIu64 " address%s in %" PRIu32
			" file%s had no time to be named (--symbol-budget); "
			"`kitprof report` of the raw profile names them\n",
			prefix, t->names_late, t->names_late == 1 ? "" : "es",
			t->names_late_modules, plural(t->names_late_modules));
	if (t->names_lost)
		fprintf(out,
			"%s%" PRIu64 " address%s could not be named, since reading the file failed "
			"badly (-v says where)\n",
			prefix, t->names_lost, t->names_lost == 1 ? "" : "es");
}

/* What is worth another run. */
static void put_java(FILE *out, const struct kp_truth *t, const char *prefix)
{
	if (t->truncated_java && t->truncated_java >= t->kept / 100)
		fprintf(out,
			"%s%" PRIu64 " stack%s cut in code that the JVM has compiled: run it with "
			"-XX:+PreserveFramePointer\n",
			prefix, t->truncated_java, t->truncated_java == 1 ? " is" : "s are");
}

uint64_t kp_truth_period_ns(const struct kp_truth *t)
{
	uint64_t period = 0;

	for (uint32_t i = 0; i < t->clock_count; i++) {
		const struct kp_clock_use *clock = &t->clock[i];

		if (clock->samples && clock->period_ns && (!period || clock->period_ns < period))
			period = clock->period_ns;
	}
	return period;
}

void kp_truth_put(const struct kp_profile *p, const char *prefix, FILE *out)
{
	const struct kp_truth *t = &p->truth;

	fputs(prefix, out);
	put_samples(out, p);
	fprintf(out, "\n%s", prefix);
	if (t->kept)
		put_explained(out, t);
	else
		put_hint(out, t);
	putc('\n', out);
	if (knows_cost(t)) {
		fputs(prefix, out);
		put_cost(out, t);
		putc('\n', out);
	}
	put_unsampled(p, prefix, out);
	put_rest(out, t, prefix);
	put_java(out, t, prefix);
	put_ending(out, t, prefix);
	if (t->taken != t->kept) {
		fputs(prefix, out);
		put_dropped(out, t);
		putc('\n', out);
	}
}

void kp_render_truth(const struct kp_profile *p, const char *program, FILE *out)
{
	char prefix[64];

	snprintf(prefix, sizeof(prefix), "%s: ", program);
	kp_truth_put(p, prefix, out);
}
