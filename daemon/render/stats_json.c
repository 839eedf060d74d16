/*
 * `report --stats --json`: the truth figures of a session as one JSON object, for programs. Keys
 * stay what they are, new ones may be added; units are part of the name. null: not known, which is
 * not 0. Runs in the daemon.
 */
#include "daemon/profile/parts.h"
#include "daemon/render/json.h"
#include "daemon/render/render.h"
#include "daemon/render/signal_text.h"
#include "daemon/render/stats.h"
#include "daemon/render/text.h"
#include "daemon/render/truth.h"

struct writer {
	const struct kp_profile *p;
	struct kp_json j;
};

static void put_number(struct writer *w, const char *key, uint64_t value)
{
	kp_json_put_number(&w->j, w->j.root, key, value);
}

/* value, or null where that is not known. */
static void put_if(struct writer *w, const char *key, bool known, uint64_t value)
{
	if (known)
		put_number(w, key, value);
	else
		kp_json_put_null(&w->j, w->j.root, key);
}

/* A string of the profile; null for the empty one. */
static void put_string(struct writer *w, const char *key, uint32_t string)
{
	if (string)
		kp_json_put_text(&w->j, w->j.root, key, w->p->strings[string]);
	else
		kp_json_put_null(&w->j, w->j.root, key);
}

static void put_percent(struct writer *w, const char *key, uint64_t part, uint64_t whole)
{
	if (whole)
		kp_json_put_decimal(&w->j, w->j.root, key, kp_text_percent(part, whole, 3));
	else
		kp_json_put_null(&w->j, w->j.root, key);
}

/* ---- the session ---- */

static const char *end_name(enum kp_end_why why)
{
	static const char *const names[] = {
		[KP_END_CUT_OFF] = "cut_off",  [KP_END_TARGET] = "target",
		[KP_END_TIME] = "time",	       [KP_END_SIGNAL] = "signal",
		[KP_END_FULL] = "buffer_full", [KP_END_HANDLER] = "handler",
	};

	return names[why];
}

static void put_session(struct writer *w)
{
	const struct kp_truth *t = &w->p->truth;
	struct kp_stats_exit exit = kp_stats_exit(t);

	put_string(w, "command", t->command);
	put_string(w, "comm", t->main_comm);
	put_if(w, "pid", t->main_pid, t->main_pid);
	put_string(w, "host", t->host);
	put_if(w, "start_unix_ns", t->start_unix_ns, t->start_unix_ns);
	kp_json_put_text(&w->j, w->j.root, "end", end_name(t->why));
	put_if(w, "exit_status", exit.known, exit.status);
	put_if(w, "exit_signal", exit.known && exit.signal, exit.signal);
	put_if(w, "window_ns", t->window_ns, t->window_ns);
}

static void put_clocks(struct writer *w)
{
	struct json_object *clocks = kp_json_put_array(&w->j, w->j.root, "clocks");

	for (uint32_t i = 0; i < w->p->truth.clock_count; i++) {
		const struct kp_clock_use *use = &w->p->truth.clock[i];
		struct json_object *clock = kp_json_put_object(&w->j, clocks, NULL);

		kp_json_put_text(&w->j, clock, "name", w->p->strings[use->name]);
		if (use->signal)
			kp_json_put_text(&w->j, clock, "signal", kp_signal_text(use->signal).text);
		else
			kp_json_put_null(&w->j, clock, "signal");
		kp_json_put_number(&w->j, clock, "period_ns", use->period_ns);
		kp_json_put_number(&w->j, clock, "samples", use->samples);
	}
}

/* ---- the figures ---- */

static void put_samples(struct writer *w)
{
	const struct kp_truth *t = &w->p->truth;
	const char *per = t->cpu_ns ? "cpu_second" : "window_second";
	struct kp_text_number got = kp_truth_rate_got(t, 3);

	kp_json_put_decimal(&w->j, w->j.root, "rate_asked_hz", kp_truth_rate_asked(t));
	kp_json_put_decimal(&w->j, w->j.root, "rate_achieved_hz", got);
	if (*got.text)
		kp_json_put_text(&w->j, w->j.root, "rate_achieved_per", per);
	else
		kp_json_put_null(&w->j, w->j.root, "rate_achieved_per");
	put_clocks(w);
	put_number(w, "samples_taken", t->taken);
	put_number(w, "samples_kept", t->kept);
	put_number(w, "samples_dropped", t->taken - t->kept);
	put_number(w, "dropped_full", t->dropped_full);
	put_number(w, "dropped_cap", t->dropped_cap);
	put_number(w, "abandoned", t->abandoned);
	put_number(w, "bad", t->bad);
	put_number(w, "overruns", t->overruns);
	put_number(w, "late", t->late);
	put_number(w, "walked_by_table", t->walked_table);
	put_number(w, "walked_by_frame_pointer", t->walked_fp);
	put_number(w, "walked_through_signal", t->walked_signal);
	put_number(w, "walked_from_copy", t->walked_slice);
	put_number(w, "truncated", t->truncated);
	put_number(w, "truncated_deep", t->truncated_deep);
	put_number(w, "truncated_bad_frame", t->truncated - t->truncated_deep);
	put_number(w, "frames", t->frames);
	put_number(w, "unnamed_frames", t->unnamed_frames);
}

static void put_time(struct writer *w)
{
	const struct kp_truth *t = &w->p->truth;
	bool has_end = kp_stats_has_end(t);

	put_if(w, "cpu_ns", t->cpu_ns, t->cpu_ns);
	put_number(w, "explained_ns", t->explained_ns);
	put_percent(w, "explained_percent", t->explained_ns, t->cpu_ns);
	put_number(w, "sampled_ns", t->sampled_ns);
	put_percent(w, "sampled_percent", t->sampled_ns, t->cpu_ns);
	if (t->wall) {
		put_number(w, "waited_ns", t->waited_ns);
		put_number(w, "samples_waiting", t->waits);
	}
	put_if(w, "stop_attach_ns", has_end, t->stop_attach_ns);
	put_if(w, "stop_detach_ns", has_end, t->stop_detach_ns);
	put_if(w, "own_cpu_ns", has_end, t->own_cpu_ns);
	put_percent(w, "own_cpu_percent", t->own_cpu_ns, has_end ? t->window_ns : 0);
	put_if(w, "threads_seen", has_end, t->threads_seen);
	put_if(w, "threads_unsampled", has_end, t->threads_unsampled);
	put_if(w, "threads_present", t->has_figures, t->threads_present);
	put_if(w, "missed", t->has_figures, t->missed);
	put_if(w, "missed_cpu_ns", t->has_figures, t->missed_cpu_ns);
	put_if(w, "unsampled_cpu_ns", t->has_figures, t->unsampled_ns);
	put_if(w, "refused", t->has_figures, t->refused);
	put_if(w, "refused_privileged", t->has_figures, t->privileged);
	put_if(w, "stops", t->has_figures, t->stops);
	put_if(w, "stops_ns", t->has_figures, t->stops_ns);
	put_if(w, "clamped", t->has_figures, t->clamped_rate || t->clamped_time);
	put_if(w, "modules", t->has_figures, t->modules);
	put_if(w, "modules_with_table", t->has_figures, t->modules_with_table);
}

static void put_unsampled(struct writer *w)
{
	struct json_object *threads = kp_json_put_array(&w->j, w->j.root, "unsampled");
	const struct kp_truth *t = &w->p->truth;

	for (uint32_t i = 0; i < t->unsampled_count && i < KP_UNSAMPLED_MAX; i++) {
		const struct kp_unsampled *u = &t->unsampled[i];
		struct json_object *thread = kp_json_put_object(&w->j, threads, NULL);

		kp_json_put_number(&w->j, thread, "pid", u->pid);
		kp_json_put_number(&w->j, thread, "tid", u->tid);
		kp_json_put_text(&w->j, thread, "name", w->p->strings[u->name]);
		kp_json_put_number(&w->j, thread, "cpu_ns", u->cpu_ns);
		kp_json_put_number(&w->j, thread, "samples", u->samples);
		kp_json_put_number(&w->j, thread, "blocks_signal", u->blocks);
	}
}

/* ---- threads ---- */

static void put_value(struct writer *w, struct json_object *to, const char *key,
		      const struct kp_part *part, const char *type)
{
	uint32_t value = kp_profile_value(w->p, type);

	if (value < w->p->value_count)
		kp_json_put_number(&w->j, to, key, (uint64_t)part->total[value]);
	else
		kp_json_put_null(&w->j, to, key);
}

static void put_threads(struct writer *w, const struct kp_parts *parts)
{
	struct json_object *threads = kp_json_put_array(&w->j, w->j.root, "threads");

	for (uint32_t i = 0; i < parts->count; i++) {
		const struct kp_label *who = &w->p->labels[parts->part[i].label];
		struct json_object *thread = kp_json_put_object(&w->j, threads, NULL);

		kp_json_put_number(&w->j, thread, "pid", who->pid);
		kp_json_put_number(&w->j, thread, "tid", who->tid);
		kp_json_put_text(&w->j, thread, "comm", w->p->strings[who->comm]);
		kp_json_put_text(&w->j, thread, "name", w->p->strings[who->thread_name]);
		put_value(w, thread, "samples", &parts->part[i], "samples");
		put_value(w, thread, "cpu_explained_ns", &parts->part[i], "cpu");
		if (w->p->truth.wall)
			put_value(w, thread, "wall_ns", &parts->part[i], "wall");
	}
}

static int render(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		  struct kp_err *err)
{
	struct writer w = { .p = p };
	struct kp_parts parts;
	int r = kp_parts_build(p, KP_SPLIT_THREAD, &parts, err);

	(void)options; /* threads are shown in any case */
	if (r < 0)
		return r;
	kp_json_init(&w.j);
	put_session(&w);
	put_samples(&w);
	put_time(&w);
	put_unsampled(&w);
	put_threads(&w, &parts);
	r = kp_json_write(&w.j, out, err);
	kp_json_deinit(&w.j);
	kp_parts_deinit(&parts);
	return r;
}

const struct kp_renderer kp_render_stats_json = {
	.name = "stats_json",
	.extension = ".json",
	.summary = "how true the profile is, as JSON",
	.render = render,
};
