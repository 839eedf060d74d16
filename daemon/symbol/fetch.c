/*
 * kp_symbolizer_fetch_all(): see symbolizer.h. Runs in the daemon, in one thread. Workers say what
 * each module lacks; debuginfod.c fetches it while all is named from what there is; what has come
 * by then, and later, is for a second look at its module. A file may lead to another one: an
 * executable to its debug information, and that to what dwz moved out of it.
 */
#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/symbol/crew.h"
#include "daemon/symbol/debuginfod.h"
#include "daemon/symbol/symbolizer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 100u /* one sample in so many */
#define ROUNDS_MAX 3 /* executable, debug information, its other half */
#define LACK_TEXT (2 * KP_DEBUGINFOD_ID_MAX + 3)

/* One module for which something may be fetched. */
struct seeker {
	const struct kp_symbolizer_request *request;
	bool waits;
	bool came; /* what it waited for last */
	bool supplied; /* something came */
	unsigned rounds;
	size_t question; /* the last one */
};

struct fetching {
	struct kp_symbolizer *s;
	const struct kp_symbolizer_limits *limits;
	struct kp_debuginfod *debuginfod;
	struct seeker *seeker;
	size_t count;
	uint64_t deadline_ns; /* of names; 0: none */
	struct kp_err *err;
};

/* ---- in workers ---- */

/* "x" or "d", what it lacks, and the build id. */
static void write_lack(const struct kp_module_lack *lack, char ret[static LACK_TEXT])
{
	*ret++ = lack->executable ? 'x' : 'd';
	for (size_t i = 0; i < lack->id_len; i++)
		ret += sprintf(ret, "%02x", lack->id[i]);
}

/* Not an address, but what the module lacks is asked for: a frame that bears it for a name, or none. */
static int find_lack(void *ctx, uint32_t module, uint64_t offset, struct kp_frames *ret,
		     struct kp_err *err)
{
	struct kp_symbolizer *s = ctx;
	struct kp_module *m = s->module[module];
	struct kp_module_lack lack;
	bool lacks;
	char *text;
	int r;

	*ret = (struct kp_frames){ .address = offset };
	r = kp_module_find(m, s->sysroot, s->debug_dirs, err);
	if (r < 0)
		return r;
	lacks = kp_module_lacks(m, &lack) && lack.id_len <= KP_DEBUGINFOD_ID_MAX;
	text = lacks ? kp_symbolizer_say(s, LACK_TEXT, ret) : NULL;
	if (text)
		write_lack(&lack, text);
	kp_module_close(m);
	return lacks && !text ? kp_fail_nomem(err) : 0;
}

static const char *no_note(void *ctx, uint32_t module)
{
	(void)ctx;
	(void)module;
	return NULL;
}

/* ---- what to ask for ---- */

/* Out of a worker, so it may be anything. */
static bool read_lack(const char *text, struct kp_debuginfod_question *ret)
{
	size_t digits = strspn(text + (text[0] != '\0'), "0123456789abcdef");

	ret->executable = text[0] == 'x';
	ret->id = text + 1;
	return (text[0] == 'x' || text[0] == 'd') && text[1 + digits] == '\0' && digits >= 4 &&
	       digits % 2 == 0 && digits <= 2 * KP_DEBUGINFOD_ID_MAX;
}

static void say(const struct kp_symbolizer_fetch *fetch, const char *line)
{
	if (fetch->say)
		fetch->say(fetch->ctx, line);
}

/* What was fetched has another build id, or none: it is still missing. */
static bool is_fetched(const struct seeker *seeker, const struct fetching *f, size_t question)
{
	return seeker->rounds > 0 && question == seeker->question &&
	       kp_debuginfod_state(f->debuginfod, question) == KP_DEBUGINFOD_HAVE;
}

static int ask(struct fetching *f, struct seeker *seeker, const char *lack)
{
	struct kp_debuginfod_question question;
	size_t number;
	int r;

	if (!read_lack(lack, &question) || seeker->rounds == ROUNDS_MAX)
		return 0;
	question.what = f->s->module[seeker->request->module]->known.path;
	r = kp_debuginfod_ask(f->debuginfod, &question, &number, f->err);
	if (r < 0)
		return r;
	if (is_fetched(seeker, f, number)) {
		kp_debuginfod_refuse(f->debuginfod, number);
		return 0;
	}
	seeker->question = number;
	seeker->waits = true;
	seeker->rounds++;
	return 0;
}

/* The jobs that a crew has with these modules, each of a single question. */
static struct kp_crew_job *make_jobs(struct seeker *const *seeker, size_t count,
				     struct kp_frames *frames)
{
	static const uint64_t nowhere;
	struct kp_crew_job *job = calloc(count + 1, sizeof(*job));

	for (size_t i = 0; job && i < count; i++)
		job[i] = (struct kp_crew_job){ .module = seeker[i]->request->module,
					       .offset = &nowhere,
					       .frames = &frames[i],
					       .count = 1 };
	return job;
}

/* Has workers say what these modules lack, and begins to fetch that. */
static int ask_all(struct fetching *f, struct seeker *const *seeker, size_t count)
{
	struct kp_symbolizer *s = f->s;
	_cleanup_(kp_freep) struct kp_frames *frames = calloc(count + 1, sizeof(*frames));
	_cleanup_(kp_freep) int *fd = calloc(s->count + 1, sizeof(*fd));
	_cleanup_(kp_freep) struct kp_crew_job *job =
		frames ? make_jobs(seeker, count, frames) : NULL;
	struct kp_crew_options options = {
		.work = { find_lack, no_note, s, fd, s->count, 0 },
		.arena = &s->arena,
		.workers = s->workers,
		.deadline_ns = f->deadline_ns,
	};
	int r;

	if (!frames || !fd || !job)
		return kp_fail_nomem(f->err);
	for (size_t i = 0; i < s->count; i++)
		fd[i] = s->module[i]->known.fd;
	r = kp_crew_run(&options, job, count, f->err);
	if (r < 0)
		return r == -KP_ENOMEM ? r : 0; /* without workers nothing is fetched */
	for (size_t i = 0; i < count; i++) {
		r = frames[i].count ? ask(f, seeker[i], frames[i].frame[0].name) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- names ---- */

/* What the files that were fetched have to say goes before what was known without them. */
static void take_better(const struct kp_symbolizer_request *request, const struct kp_frames *better)
{
	for (uint32_t i = 0; i < request->count; i++)
		if (better[i].count)
			request->ret[i] = better[i];
}

/* The time for names that is left, for a budget. */
static uint64_t left_ns(const struct fetching *f)
{
	uint64_t now_ns = kp_now_ns();

	if (!f->deadline_ns)
		return 0; /* no limit */
	return f->deadline_ns > now_ns ? f->deadline_ns - now_ns : 1;
}

static int name_again(struct fetching *f, const struct seeker *seeker)
{
	struct kp_symbolizer_request request = *seeker->request;
	_cleanup_(kp_freep) struct kp_frames *frames = calloc(request.count, sizeof(*frames));
	struct kp_symbolizer_limits limits = *f->limits;
	struct kp_symbolizer_rest ignored; /* it has names, if poorer ones */
	int r;

	if (!frames)
		return kp_fail_nomem(f->err);
	limits.budget_ns = left_ns(f);
	f->s->module[request.module]->note[0] = '\0';
	request.ret = frames;
	r = kp_symbolizer_resolve_all(f->s, &request, 1, &limits, &ignored, f->err);
	if (r == 0)
		take_better(seeker->request, frames);
	return r;
}

/* ---- the whole ---- */

static void use_dir(struct kp_symbolizer *s, const char *dir)
{
	size_t n = 0;

	while (s->debug_dirs[n] && s->debug_dirs[n] != dir)
		n++;
	s->debug_dirs[n] = dir;
	if (s->open)
		kp_module_close(s->open); /* it was opened without */
}

/* Those whose file has come, or will not come. Returns their number. */
static size_t find_served(struct fetching *f, struct seeker **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < f->count; i++) {
		struct seeker *seeker = &f->seeker[i];
		enum kp_debuginfod_state state;

		if (!seeker->waits)
			continue;
		state = kp_debuginfod_state(f->debuginfod, seeker->question);
		if (state == KP_DEBUGINFOD_PENDING)
			continue;
		seeker->waits = false;
		seeker->came = state == KP_DEBUGINFOD_HAVE;
		seeker->supplied |= seeker->came;
		ret[n++] = seeker;
	}
	return n;
}

static bool anybody_waits(const struct fetching *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->seeker[i].waits)
			return true;
	return false;
}

/* As files come, until none will come any more. */
static int serve(struct fetching *f)
{
	_cleanup_(kp_freep) struct seeker **served = calloc(f->count + 1, sizeof(*served));
	_cleanup_(kp_freep) struct seeker **more = calloc(f->count + 1, sizeof(*more));
	int r = 0;

	if (!served || !more)
		return kp_fail_nomem(f->err);
	while (r == 0 && anybody_waits(f)) {
		size_t n = find_served(f, served), came = 0;

		if (!n)
			kp_debuginfod_wait(f->debuginfod);
		for (size_t i = 0; i < n; i++)
			if (served[i]->came)
				more[came++] = served[i];
		if (came) {
			use_dir(f->s, kp_debuginfod_dir(f->debuginfod));
			r = ask_all(f, more, came);
		}
		for (size_t i = 0; r == 0 && i < n; i++)
			if (served[i]->supplied && !served[i]->waits)
				r = name_again(f, served[i]);
	}
	return r;
}

/* Meanwhile. */
static void look_and_forward(void *ctx, const struct kp_symbolizer_progress *progress)
{
	const struct fetching *f = ctx;

	kp_debuginfod_look(f->debuginfod);
	if (f->limits->progress)
		f->limits->progress(f->limits->ctx, progress);
}

static int find_seekers(struct fetching *f, const struct kp_symbolizer_request *request,
			size_t count, uint64_t samples)
{
	_cleanup_(kp_freep) struct seeker **all = calloc(count + 1, sizeof(*all));

	f->seeker = calloc(count + 1, sizeof(*f->seeker));
	if (!f->seeker || !all)
		return kp_fail_nomem(f->err);
	for (size_t i = 0; i < count; i++) {
		if (!request[i].count || request[i].samples * SHARE < samples)
			continue;
		f->seeker[f->count].request = &request[i];
		all[f->count] = &f->seeker[f->count];
		f->count++;
	}
	return ask_all(f, all, f->count);
}

static int fetch_all(struct fetching *f, const struct kp_symbolizer_request *request, size_t count,
		     const struct kp_symbolizer_fetch *fetch, struct kp_symbolizer_rest *ret)
{
	struct kp_symbolizer_limits limits = { 0, look_and_forward, f };
	int r = find_seekers(f, request, count, fetch->samples);

	limits.budget_ns = left_ns(f);
	if (r == 0)
		r = kp_symbolizer_resolve_all(f->s, request, count, &limits, ret, f->err);
	return r == 0 ? serve(f) : r;
}

int kp_symbolizer_fetch_all(struct kp_symbolizer *s, const struct kp_symbolizer_request *request,
			    size_t count, const struct kp_symbolizer_limits *limits,
			    const struct kp_symbolizer_fetch *fetch, struct kp_symbolizer_rest *ret,
			    struct kp_err *err)
{
	struct fetching f = { .s = s, .limits = limits, .err = err };
	uint64_t now_ns = kp_now_ns(), time_ns = fetch->time_ns;
	struct kp_err why;
	int r;

	if (limits->budget_ns && limits->budget_ns < time_ns)
		time_ns = limits->budget_ns;
	r = kp_debuginfod_create(fetch, now_ns + time_ns, &f.debuginfod, &why);
	if (r < 0)
		return kp_fail_nomem(err);
	if (r == KP_DEBUGINFOD_CANNOT) {
		say(fetch, why.text);
		return kp_symbolizer_resolve_all(s, request, count, limits, ret, err);
	}
	f.deadline_ns = limits->budget_ns ? now_ns + limits->budget_ns : 0;
	r = fetch_all(&f, request, count, fetch, ret);
	kp_debuginfod_destroy(f.debuginfod);
	free(f.seeker);
	return r;
}
