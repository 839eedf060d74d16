/*
 * All that is asked at once: symbolizer.h. Runs in the daemon, in one thread. Three steps: workers
 * find each module's files and say what its names are made of; what the cache has of that is taken;
 * the rest is looked up by workers again, and given to the cache.
 */
#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/symbol/crew.h"
#include "daemon/symbol/symbolizer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One module's part. The arrays are pieces of those of struct all. */
struct part {
	const struct kp_symbolizer_request *request;
	struct kp_answer_source source; /* build_id_len 0: not for the cache */
	uint64_t *offset; /* of what is to be looked up, job->count */
	struct kp_frames *frames;
	uint32_t *number; /* in the request */
};

struct all {
	struct kp_symbolizer *s;
	const struct kp_symbolizer_limits *limits;
	uint64_t deadline_ns;
	struct part *part;
	struct kp_crew_job *job; /* one for each part */
	size_t count;
	uint64_t asked, kept; /* addresses; kept: answered out of the cache */
	size_t first_kept; /* of these parts, in the symbolizer's list */
	uint64_t *offset;
	struct kp_frames *frames;
	uint32_t *number;
};

static void all_deinit(struct all *all)
{
	free(all->part);
	free(all->job);
	free(all->offset);
	free(all->frames);
	free(all->number);
}

/* ---- in workers ---- */

static int look_up(void *ctx, uint32_t module, uint64_t offset, struct kp_frames *ret,
		   struct kp_err *err)
{
	return kp_symbolizer_resolve(ctx, module, &offset, 1, ret, err);
}

static const char *look_up_note(void *ctx, uint32_t module)
{
	return kp_symbolizer_note(ctx, module);
}

/* Not an address, but the module's source is asked for: a frame that bears it for a name, or none. */
static int find_source(void *ctx, uint32_t module, uint64_t offset, struct kp_frames *ret,
		       struct kp_err *err)
{
	struct kp_symbolizer *s = ctx;
	struct kp_module *m = s->module[module];
	struct kp_answer_source source;
	char *text;
	int r;

	*ret = (struct kp_frames){ .address = offset };
	r = kp_module_find(m, s->sysroot, s->debug_dirs, err);
	if (r < 0)
		return r;
	kp_module_source(m, &source);
	kp_module_close(m);
	if (source.build_id_len < KP_CACHE_ID_MIN)
		return 0;
	text = kp_symbolizer_say(s, KP_ANSWER_SOURCE_TEXT, ret);
	if (!text)
		return kp_fail_nomem(err);
	kp_answer_source_write(&source, text);
	return 0;
}

/* ---- their work ---- */

static void forward(void *ctx, size_t jobs_done, uint64_t answered)
{
	const struct all *all = ctx;
	struct kp_symbolizer_progress progress = {
		.modules_done = jobs_done,
		.modules = all->count,
		.done = all->kept + answered,
		.asked = all->asked,
	};

	all->limits->progress(all->limits->ctx, &progress);
}

static int run_crew(struct all *all, struct kp_crew_job *job,
		    int (*work)(void *, uint32_t, uint64_t, struct kp_frames *, struct kp_err *),
		    bool shown, struct kp_err *err)
{
	struct kp_symbolizer *s = all->s;
	_cleanup_(kp_freep) int *fd = calloc(s->count + 1, sizeof(*fd));
	struct kp_crew_options options = {
		.work = { work, look_up_note, s, fd, s->count, 0 },
		.arena = &s->arena,
		.workers = s->workers,
		.deadline_ns = all->deadline_ns,
		.progress = shown && all->limits->progress ? forward : NULL,
		.progress_ctx = all,
	};

	if (!fd)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < s->count; i++)
		fd[i] = s->module[i]->known.fd;
	return kp_crew_run(&options, job, all->count, err);
}

/* Without workers. */
static int run_alone(struct all *all, struct kp_err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < all->count; i++) {
		struct kp_crew_job *job = &all->job[i];

		r = kp_symbolizer_resolve(all->s, job->module, job->offset, job->count, job->frames,
					  err);
		job->answered = job->count;
		job->lost = job->late = 0;
	}
	return r;
}

/* ---- the cache ---- */

/* What each module's names are made of. What crashes here is not opened a second time. */
static int find_sources(struct all *all, struct kp_err *err)
{
	static const uint64_t nowhere;
	_cleanup_(kp_freep) struct kp_crew_job *job = calloc(all->count + 1, sizeof(*job));
	_cleanup_(kp_freep) struct kp_frames *frames = calloc(all->count + 1, sizeof(*frames));
	int r;

	if (!job || !frames)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < all->count; i++)
		job[i] = (struct kp_crew_job){ .module = all->part[i].request->module,
					       .offset = &nowhere,
					       .frames = &frames[i],
					       .count = 1 };
	r = run_crew(all, job, find_source, false, err);
	for (size_t i = 0; r == 0 && i < all->count; i++) {
		struct kp_answer_source *source = &all->part[i].source;

		if (!frames[i].count || !kp_answer_source_read(frames[i].frame[0].name, source))
			source->build_id_len = 0;
	}
	return r == -KP_ENOMEM ? r : 0;
}

/* Answers what is kept, and leaves the rest in the part. */
static void recall(struct all *all, size_t i, const struct kp_kept_answers *kept)
{
	const struct kp_symbolizer_request *request = all->part[i].request;
	struct kp_crew_job *job = &all->job[i];
	struct part *part = &all->part[i];
	size_t at = 0;

	job->note = kept->view.note;
	job->count = 0;
	for (uint32_t n = 0; n < request->count; n++) {
		uint64_t offset = request->file_offset[n];

		request->ret[n] = (struct kp_frames){ .address = offset };
		if (kp_kept_answers_find(kept, &at, offset, &request->ret[n])) {
			all->kept++;
			continue;
		}
		part->offset[job->count] = offset;
		part->frames[job->count] = request->ret[n];
		part->number[job->count++] = n;
	}
}

static int recall_all(struct all *all, struct kp_err *err)
{
	struct kp_symbolizer *s = all->s;

	for (size_t i = 0; i < all->count; i++) {
		struct kp_kept_answers *kept = &s->kept[all->first_kept + i];
		int r = 0;

		if (s->cache && all->part[i].source.build_id_len)
			r = kp_kept_answers_load(s->cache, &all->part[i].source, &s->arena, kept,
						 err);
		if (r < 0)
			return r;
		recall(all, i, kept);
	}
	return 0;
}

/* What a worker has said nothing of has this for a frame. */
static const struct kp_frame unasked;

static int keep(struct all *all, size_t i, struct kp_err *err)
{
	struct part *part = &all->part[i];
	const struct kp_crew_job *job = &all->job[i];
	struct kp_answers fresh = { part->offset, part->frames, 0, job->note };

	/* What crashed today is looked up tomorrow; what crashed once may have lied before. */
	if (!part->source.build_id_len || !job->answered || job->lost)
		return 0;
	for (uint32_t n = 0; n < job->count; n++) {
		if (part->frames[n].frame == &unasked)
			continue;
		part->offset[fresh.count] = part->offset[n];
		part->frames[fresh.count++] = part->frames[n];
	}
	return kp_kept_answers_save(all->s->cache, &part->source,
				    &all->s->kept[all->first_kept + i], &fresh, err);
}

static int keep_all(struct all *all, struct kp_err *err)
{
	bool any = false;

	for (size_t i = 0; i < all->count; i++) {
		int r = keep(all, i, err);

		if (r < 0)
			return r;
		any |= all->part[i].source.build_id_len && all->job[i].answered;
	}
	if (any)
		kp_cache_trim(all->s->cache);
	return 0;
}

/* ---- the whole ---- */

/* Behind those of an earlier call. */
static int add_kept(struct all *all, struct kp_err *err)
{
	struct kp_symbolizer *s = all->s;
	void *grown = reallocarray(s->kept, s->kept_count + all->count + 1, sizeof(*s->kept));

	if (!grown)
		return kp_fail_nomem(err);
	s->kept = grown;
	memset(s->kept + s->kept_count, 0, all->count * sizeof(*s->kept));
	all->first_kept = s->kept_count;
	s->kept_count += all->count;
	return 0;
}

static int begin(struct all *all, const struct kp_symbolizer_request *request, struct kp_err *err)
{
	uint64_t at = 0;

	for (size_t i = 0; i < all->count; i++)
		all->asked += request[i].count;
	all->part = calloc(all->count + 1, sizeof(*all->part));
	all->job = calloc(all->count + 1, sizeof(*all->job));
	all->offset = calloc(all->asked + 1, sizeof(*all->offset));
	all->frames = calloc(all->asked + 1, sizeof(*all->frames));
	all->number = calloc(all->asked + 1, sizeof(*all->number));
	if (!all->part || !all->job || !all->offset || !all->frames || !all->number)
		return kp_fail_nomem(err);
	if (add_kept(all, err) < 0)
		return -KP_ENOMEM;
	for (size_t i = 0; i < all->count; i++) {
		all->part[i] = (struct part){ .request = &request[i],
					      .offset = all->offset + at,
					      .frames = all->frames + at,
					      .number = all->number + at };
		all->job[i] = (struct kp_crew_job){ .module = request[i].module,
						    .offset = all->offset + at,
						    .frames = all->frames + at };
		at += request[i].count;
	}
	return 0;
}

static int look_up_rest(struct all *all, struct kp_err *err)
{
	int r;

	for (size_t i = 0; i < all->count; i++)
		for (uint32_t n = 0; n < all->job[i].count; n++)
			all->part[i].frames[n].frame = &unasked;
	if (all->kept == all->asked)
		return 0;
	r = run_crew(all, all->job, look_up, true, err);
	return r < 0 && r != -KP_ENOMEM ? run_alone(all, err) : r;
}

static void hand_out(const struct all *all, size_t i)
{
	const struct part *part = &all->part[i];

	for (uint32_t n = 0; n < all->job[i].count; n++)
		if (part->frames[n].frame != &unasked)
			part->request->ret[part->number[n]] = part->frames[n];
}

static void take_note(struct kp_symbolizer *s, const struct kp_crew_job *job)
{
	struct kp_module *m = s->module[job->module];

	if (job->lost)
		snprintf(m->note, sizeof(m->note), "%s: %u of %u addresses have no names: %s",
			 m->known.path, job->lost, job->count, job->why);
	else if (job->note)
		snprintf(m->note, sizeof(m->note), "%s", job->note);
}

static int resolve_all(struct all *all, const struct kp_symbolizer_request *request,
		       struct kp_symbolizer_rest *ret, struct kp_err *err)
{
	int r = begin(all, request, err);

	if (r == 0 && all->s->cache && all->asked)
		r = find_sources(all, err);
	if (r == 0)
		r = recall_all(all, err);
	if (r == 0)
		r = look_up_rest(all, err);
	for (size_t i = 0; r == 0 && i < all->count; i++) {
		const struct kp_crew_job *job = &all->job[i];

		hand_out(all, i);
		take_note(all->s, job);
		ret->late += job->late;
		ret->late_modules += job->late > 0;
		ret->lost += job->lost;
	}
	return r == 0 && all->s->cache ? keep_all(all, err) : r;
}

int kp_symbolizer_resolve_all(struct kp_symbolizer *s, const struct kp_symbolizer_request *request,
			      size_t count, const struct kp_symbolizer_limits *limits,
			      struct kp_symbolizer_rest *ret, struct kp_err *err)
{
	struct all all = {
		.s = s,
		.limits = limits,
		.deadline_ns = limits->budget_ns ? kp_now_ns() + limits->budget_ns : 0,
		.count = count,
	};
	int r;

	*ret = (struct kp_symbolizer_rest){ 0 };
	r = resolve_all(&all, request, ret, err);
	all_deinit(&all);
	return r;
}
