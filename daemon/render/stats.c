/*
 * `report --stats`: the truth figures of a session, all of them, as lines for people: a word that
 * says what, and the figures. What is not known is not shown. Runs in the daemon.
 */
#include "daemon/render/stats.h"

#include "daemon/profile/parts.h"
#include "daemon/render/render.h"
#include "daemon/render/signal_text.h"
#include "daemon/render/text.h"
#include "daemon/render/truth.h"

#include <inttypes.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)
#define MILLISECOND_NS UINT64_C(1000000)

bool kp_stats_has_end(const struct kp_truth *t)
{
	return t->why != KP_END_CUT_OFF;
}

/* The status is as Linux's wait(2) gives it, whichever system this is. */
struct kp_stats_exit kp_stats_exit(const struct kp_truth *t)
{
	struct kp_stats_exit ret = { .known = t->run && t->why == KP_END_TARGET };

	if (!ret.known)
		return ret;
	ret.signal = t->exit_status & 0x7f;
	ret.status = ret.signal ? 128 + ret.signal : t->exit_status >> 8 & 0xff;
	return ret;
}

static void begin(FILE *out, const char *what)
{
	fprintf(out, "%-10s ", what);
}

static void put_text(FILE *out, const struct kp_profile *p, uint32_t string)
{
	const char *text = p->strings[string];

	kp_text_put(out, *text ? text : "[unknown]", 0);
}

static void put_count(FILE *out, uint64_t n, const char *what)
{
	fprintf(out, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
}

static void put_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "%s s", kp_text_number(ns, SECOND_NS, 3).text);
}

static void put_ms(FILE *out, uint64_t ns)
{
	fprintf(out, "%s ms", kp_text_number(ns, MILLISECOND_NS, 3).text);
}

/* ---- the session ---- */

static void put_start(FILE *out, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / SECOND_NS);
	char text[64] = "";
	struct tm utc;

	if (!unix_ns || !gmtime_r(&seconds, &utc))
		return;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
	begin(out, "start");
	fprintf(out, "%s\n", text);
}

static void put_end(FILE *out, const struct kp_truth *t)
{
	static const char *const why[] = {
		[KP_END_CUT_OFF] = "not known: the raw profile was cut off",
		[KP_END_TARGET] = "the target ended",
		[KP_END_TIME] = "the time was over",
		[KP_END_SIGNAL] = "the user ended it",
		[KP_END_FULL] = "buffer_full: as many samples as --cap allows",
		[KP_END_HANDLER] = "the target took the sampling signal for itself",
	};
	struct kp_stats_exit exit = kp_stats_exit(t);

	begin(out, "end");
	fputs(why[t->why], out);
	if (exit.known && exit.signal)
		fprintf(out, ", killed by %s", kp_signal_text(exit.signal).text);
	else if (exit.known)
		fprintf(out, ", exit status %u", exit.status);
	putc('\n', out);
}

static void put_session(FILE *out, const struct kp_profile *p)
{
	const struct kp_truth *t = &p->truth;

	if (t->command) {
		begin(out, "command");
		put_text(out, p, t->command);
		putc('\n', out);
	}
	begin(out, "process");
	put_text(out, p, t->main_comm);
	if (t->main_pid)
		fprintf(out, " (pid %u)", t->main_pid);
	putc('\n', out);
	if (t->host) {
		begin(out, "host");
		put_text(out, p, t->host);
		putc('\n', out);
	}
	put_start(out, t->start_unix_ns);
	put_end(out, t);
	if (t->window_ns) {
		begin(out, "window");
		put_seconds(out, t->window_ns);
		putc('\n', out);
	}
}

/* ---- samples ---- */

static void put_rates(FILE *out, const struct kp_truth *t)
{
	struct kp_text_number got = kp_truth_rate_got(t, 1);

	begin(out, "rate");
	fprintf(out, "%s Hz asked", kp_truth_rate_asked(t).text);
	if (*got.text)
		fprintf(out, ", %s Hz achieved, in a second of %s", got.text,
			t->cpu_ns ? "CPU time" : "the window");
	putc('\n', out);
}

static void put_clocks(FILE *out, const struct kp_profile *p)
{
	for (uint32_t i = 0; i < p->truth.clock_count; i++) {
		const struct kp_clock_use *clock = &p->truth.clock[i];

		begin(out, "clock");
		put_text(out, p, clock->name);
		if (clock->signal)
			fprintf(out, ", %s", kp_signal_text(clock->signal).text);
		fputs(", every ", out);
		put_ms(out, clock->period_ns);
		fputs(": ", out);
		put_count(out, clock->samples, "sample");
		putc('\n', out);
	}
}

static void put_samples(FILE *out, const struct kp_truth *t)
{
	begin(out, "samples");
	fprintf(out, "%" PRIu64 " taken = %" PRIu64 " kept + %" PRIu64 " dropped", t->taken,
		t->kept, t->taken - t->kept);
	fprintf(out,
		" (ring full %" PRIu64 ", cap %" PRIu64 ", abandoned %" PRIu64 ", bad %" PRIu64
		")\n",
		t->dropped_full, t->dropped_cap, t->abandoned, t->bad);
	begin(out, "overruns");
	fprintf(out, "%" PRIu64 "\n", t->overruns);
	if (t->late) {
		begin(out, "late");
		put_count(out, t->late, "sample");
		fputs(" a period or more behind the clock\n", out);
	}
	begin(out, "truncated");
	put_count(out, t->truncated, "stack");
	if (t->truncated)
		fprintf(out, ": %" PRIu64 " deeper than a sample holds, %" PRIu64 " at a bad frame",
			t->truncated_deep, t->truncated - t->truncated_deep);
	putc('\n', out);
	begin(out, "frames");
	fprintf(out, "%" PRIu64 ", %" PRIu64 " without a name (%s %%)\n", t->frames,
		t->unnamed_frames, kp_text_percent(t->unnamed_frames, t->frames, 1).text);
}

static void put_walks(FILE *out, const struct kp_truth *t)
{
	if (!t->has_figures)
		return;
	begin(out, "walked");
	fprintf(out,
		"%" PRIu64 " by table, %" PRIu64 " by frame pointer, %" PRIu64
		" through a signal frame, %" PRIu64 " from a copy of the stack\n",
		t->walked_table, t->walked_fp, t->walked_signal, t->walked_slice);
	begin(out, "modules");
	fprintf(out, "%u, %u of them with an unwind table\n", t->modules, t->modules_with_table);
}

/* ---- time ---- */

static void put_cpu(FILE *out, const struct kp_truth *t)
{
	begin(out, "cpu");
	if (t->cpu_ns) {
		put_seconds(out, t->cpu_ns);
		fputs(" used, ", out);
	}
	put_seconds(out, t->explained_ns);
	fputs(" explained", out);
	if (t->cpu_ns)
		fprintf(out, " (%s %%)", kp_text_percent(t->explained_ns, t->cpu_ns, 1).text);
	putc('\n', out);
	if (t->has_figures) {
		begin(out, "sampled");
		put_seconds(out, t->sampled_ns);
		fputs(" before weights were scaled to the threads' run times\n", out);
	}
	if (!t->wall)
		return;
	begin(out, "waited");
	put_seconds(out, t->waited_ns);
	fputs(", ", out);
	put_count(out, t->waits, "sample");
	putc('\n', out);
}

static void put_cost(FILE *out, const struct kp_truth *t)
{
	if (!kp_stats_has_end(t))
		return;
	begin(out, "stopped");
	put_ms(out, t->stop_attach_ns);
	fputs(" to attach, ", out);
	put_ms(out, t->stop_detach_ns);
	fputs(" to detach\n", out);
	begin(out, "own cpu");
	put_seconds(out, t->own_cpu_ns);
	if (t->window_ns)
		fprintf(out, " (%s %% of a CPU)",
			kp_text_percent(t->own_cpu_ns, t->window_ns, 1).text);
	putc('\n', out);
	begin(out, "threads");
	fprintf(out, "%u seen, %u could not be sampled\n", t->threads_seen, t->threads_unsampled);
	if (!t->has_figures)
		return;
	begin(out, "present");
	fprintf(out, "%u at the end of the window\n", t->threads_present);
	begin(out, "missed");
	fprintf(out, "%u ended before a clock ran for them: ", t->missed);
	put_seconds(out, t->missed_cpu_ns);
	putc('\n', out);
	begin(out, "refused");
	put_count(out, t->refused, "program");
	fprintf(out, ", %u of them set-uid\n", t->privileged);
	begin(out, "stops");
	put_count(out, t->stops, "stop");
	fputs(" of threads to sample them, ", out);
	put_ms(out, t->stops_ns);
	fputs(t->clamped_rate ? ", clamped to 1000 Hz" : "", out);
	fputs(t->clamped_time ? ", clamped to 60 s\n" : "\n", out);
}

static void put_unsampled(FILE *out, const struct kp_profile *p)
{
	const struct kp_truth *t = &p->truth;

	for (uint32_t i = 0; i < t->unsampled_count && i < KP_UNSAMPLED_MAX; i++) {
		const struct kp_unsampled *thread = &t->unsampled[i];

		begin(out, thread->blocks ? "blocks" : "unsampled");
		put_text(out, p, thread->name);
		fprintf(out, " (tid %u) of pid %u: ", thread->tid, thread->pid);
		put_seconds(out, thread->cpu_ns);
		fputs(" CPU, ", out);
		put_count(out, thread->samples, "sample");
		putc('\n', out);
	}
}

/* ---- threads ---- */

static void put_thread(FILE *out, const struct kp_profile *p, const struct kp_part *part)
{
	const struct kp_label *who = &p->labels[part->label];
	uint32_t samples = kp_profile_value(p, "samples"), cpu = kp_profile_value(p, "cpu");
	uint32_t wall = kp_profile_value(p, "wall");

	begin(out, "thread");
	put_text(out, p, who->thread_name);
	fprintf(out, " (tid %u) of ", who->tid);
	put_text(out, p, who->comm);
	fprintf(out, " (pid %u): ", who->pid);
	if (cpu < p->value_count) {
		put_seconds(out, (uint64_t)part->total[cpu]);
		fprintf(out, " explained (%s %%), ",
			kp_text_percent((uint64_t)part->total[cpu], p->truth.explained_ns, 1).text);
	}
	if (wall < p->value_count && cpu < p->value_count) {
		put_seconds(out, (uint64_t)(part->total[wall] - part->total[cpu]));
		fputs(" waited, ", out);
	}
	put_count(out, samples < p->value_count ? (uint64_t)part->total[samples] : part->count,
		  "sample");
	putc('\n', out);
}

static int render(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		  struct kp_err *err)
{
	struct kp_parts parts;
	int r = kp_parts_build(p, KP_SPLIT_THREAD, &parts, err);

	(void)options; /* threads are shown in any case */
	if (r < 0)
		return r;
	put_session(out, p);
	put_rates(out, &p->truth);
	put_clocks(out, p);
	put_samples(out, &p->truth);
	put_walks(out, &p->truth);
	put_cpu(out, &p->truth);
	put_cost(out, &p->truth);
	put_unsampled(out, p);
	for (uint32_t i = 0; i < parts.count; i++)
		put_thread(out, p, &parts.part[i]);
	kp_parts_deinit(&parts);
	return ferror(out) ? kp_fail_errno(err, "cannot write") : 0;
}

const struct kp_renderer kp_render_stats = {
	.name = "stats",
	.extension = ".stats",
	.summary = "how true the profile is, as lines",
	.render = render,
};
