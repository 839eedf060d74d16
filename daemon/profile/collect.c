/*
 * Raw profile -> profile. The file is read twice from front to back. The first pass gathers the
 * truth figures and the distinct addresses; these are looked up in one go, file by file; the
 * second pass finds each sample's names ready and only interns. So memory depends on how much code
 * was sampled, not on how many samples there are. Runs in the daemon after the window, or in
 * `kitprof report`, in one thread; it opens nothing itself.
 */
#include "daemon/profile/collect.h"

#include "daemon/profile/account.h"
#include "daemon/profile/jit.h"
#include "daemon/profile/locate.h"
#include "daemon/profile/presence.h"
#include "daemon/profile/replay.h"
#include "daemon/profile/runtimes.h"
#include "daemon/profile/sites.h"

#include "common/unwind/fp.h"
#include "proto/rawfile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNSAMPLED_MIN_NS UINT64_C(10000000)

struct collector {
	const struct kp_collect_options *options;
	const void *data;
	size_t size;
	struct kp_profile *profile;
	struct kp_replay replay;
	struct kp_sites sites;
	struct kp_presence presence;
	struct kp_jit jit;
	struct kp_symbolizer *symbolizer;
	struct kp_account account;
	struct kp_runtimes runtimes;
	struct kp_raw_string main_exe; /* of the process named first */
	uint32_t main_module;
	uint16_t machine; /* e_machine */
	uint32_t java_looked; /* modules that runs_java() has looked at */
	bool java;
	uint32_t wall_value, cpu_value; /* indices of values */
};

static void remark(const struct collector *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void remark(const struct collector *c, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	if (!c->options->remark)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	c->options->remark(c->options->ctx, line);
}

/* ---- passes over the file ---- */

typedef int (*take_fn)(struct collector *c, const struct kp_raw_record *record, struct kp_err *err);

/* How a pass came to its end, and where. */
struct ending {
	int how; /* enum kp_raw_result, or -KP_EBADDATA with what in why */
	size_t offset;
	struct kp_err why;
};

/* Hands each good record to take, which returns 0 or < 0. */
static int pass(struct collector *c, take_fn take, struct ending *ret, struct kp_err *err)
{
	struct kp_raw_reader reader;
	struct kp_raw_record record;
	int r;

	r = kp_raw_reader_init(&reader, c->data, c->size, c->options->name, err);
	if (r < 0)
		return r;
	while ((ret->how = kp_raw_read(&reader, &record, &ret->why)) == KP_RAW_RECORD) {
		r = take(c, &record, err);
		if (r < 0)
			return r;
	}
	ret->offset = reader.offset;
	return 0;
}

/* What there is to say of a file that does not end as it should. */
static void remark_ending(const struct collector *c, const struct ending *end)
{
	if (end->how < 0)
		remark(c, "%s; what comes before is shown", end->why.text);
	else if (end->how == KP_RAW_CUT)
		remark(c,
		       "%s: cut off in the middle of a record at offset %zu; what comes before "
		       "is shown",
		       c->options->name, end->offset);
	else if (!c->account.has_end)
		remark(c,
		       "%s: ends at offset %zu without an END record: the session was "
		       "interrupted; all up to there is shown",
		       c->options->name, end->offset);
	else if (c->account.lost.kept != c->account.samples)
		remark(c, "%s: has %llu samples, but its END record speaks of %llu",
		       c->options->name, (unsigned long long)c->account.samples,
		       (unsigned long long)c->account.lost.kept);
}

/*
 * The address of frame i. A return address is that of the instruction after the call, which may
 * be another line, an inlined frame's end or even the next function: one less lies in the call.
 */
static uint64_t frame_address(const struct kp_raw_sample *s, uint32_t i)
{
	return i == 0 ? s->pc[0] : s->pc[i] - 1;
}

static int get_site(struct collector *c, const struct kp_raw_sample *s, uint32_t frame,
		    struct kp_site **ret, struct kp_err *err)
{
	uint64_t address = frame_address(s, frame);
	uint32_t module = kp_replay_module_at(&c->replay, s->pid, address);

	return kp_sites_get(&c->sites, module, address, ret, err);
}

/*
 * Frames of the sample that can be frames. Where code has no frame pointers the walk takes whatever
 * the register holds for one, and what it then reads is not a return address. Code that returns
 * lies in executable memory, so the stack ends before the first caller that does not: the rest
 * would be noise that looks like code. The leaf is always kept, the CPU was there.
 */
static uint16_t real_depth(const struct collector *c, const struct kp_raw_sample *s)
{
	uint16_t depth = 1;

	while (depth < s->depth && kp_replay_module_at(&c->replay, s->pid, frame_address(s, depth)))
		depth++;
	return depth;
}

/* ---- first pass ---- */

/* pprof takes the first mapping for the program: its own file, else what it mapped first. */
static void note_main_module(struct collector *c, const struct kp_raw_module *m)
{
	uint32_t module = kp_replay_module_at(&c->replay, m->pid, m->start);

	if (m->pid != c->profile->truth.main_pid || !module)
		return;
	if (!c->main_module)
		c->main_module = module;
	if (kp_raw_string_same(m->path, c->main_exe) &&
	    !kp_raw_string_same(c->replay.modules[c->main_module].path, c->main_exe))
		c->main_module = module;
}

static int survey(struct collector *c, const struct kp_raw_record *record, struct kp_err *err)
{
	bool first_process = record->type == KP_RAW_PROCESS && !c->account.has_process;
	struct kp_site *site;
	uint16_t depth;
	int r;

	r = kp_account_apply(&c->account, c->profile, record, err);
	if (r < 0)
		return r;
	r = kp_replay_apply(&c->replay, record, err);
	if (r < 0)
		return r;
	r = kp_runtimes_apply(&c->runtimes, record, err);
	if (r < 0)
		return r;
	r = kp_jit_apply(&c->jit, record, err);
	if (r < 0)
		return r;
	if (record->type == KP_RAW_TALLY) {
		c->profile->truth.has_figures = true;
		c->profile->truth.threads_present += record->tally.flags & KP_TALLY_PRESENT;
	}
	if (record->type == KP_RAW_SESSION)
		c->machine = (uint16_t)record->session.elf_machine;
	if (first_process)
		c->main_exe = record->process.exe;
	if (record->type == KP_RAW_MODULE)
		note_main_module(c, &record->module);
	if (record->type != KP_RAW_SAMPLE)
		return 0;
	depth = real_depth(c, &record->sample);
	for (uint32_t i = 0; i < depth; i++) {
		r = get_site(c, &record->sample, i, &site, err);
		if (r == 0)
			r = kp_presence_add(&c->presence, site->module, c->account.samples, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void remark_module(void *ctx, uint32_t symbol_module)
{
	const struct collector *c = ctx;
	const char *note = kp_symbolizer_note(c->symbolizer, symbol_module);

	if (note)
		remark(c, "%s", note);
}

/* ---- second pass ---- */

/*
 * Functions that nothing calls, or nothing that matters. Most C libraries are built without frame
 * pointers: below main or a thread's first function the register holds anything, and the walk ends
 * for some accidental reason instead of at a zero. All the same the root has been reached.
 */
static bool is_root(const char *name)
{
	static const char *const roots[] = {
		"_start",
		"__libc_start_main",
		"__libc_start_main_impl",
		"__libc_start_call_main",
		"start_thread",
		"clone",
		"__clone",
		"clone3",
		"__clone3",
		"_dl_start_user",
	};

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		if (strcmp(name, roots[i]) == 0)
			return true;
	}
	return false;
}

/* The name of a location's function as the linker knows it. */
static const char *outer_name(const struct collector *c, uint32_t location)
{
	return c->profile->strings[kp_locate_outer(c->profile, location)->system_name];
}

/*
 * depth: frames that are shown. root: location of the outermost of them; before: of the one that it
 * called, 0 if there is none. A frame pointer of 0 ends a chain; where there is no chain at all it
 * says nothing, the register may hold a number like any other.
 */
static bool is_whole(const struct collector *c, const struct kp_raw_sample *s, uint16_t depth,
		     uint32_t root, uint32_t before)
{
	bool chain_ended =
		s->walk_end < KP_WALK_END_COUNT && kp_walk_is_whole((enum kp_walk_end)s->walk_end);

	if (chain_ended && depth == s->depth && depth > 1)
		return true;
	if (is_root(outer_name(c, root)))
		return true;
	return before && strcmp(outer_name(c, before), "main") == 0;
}

static int locate(struct collector *c, const struct kp_raw_sample *s, uint32_t frame, uint32_t *ret,
		  struct kp_err *err)
{
	struct kp_site *site;
	int r;

	r = get_site(c, s, frame, &site, err);
	if (r < 0)
		return r;
	return kp_locate_site(c->profile, &c->replay, site, ret, err);
}

/* Whether a process has a HotSpot in it. */
static bool runs_java(struct collector *c)
{
	static const char name[] = "/libjvm.so";
	size_t len = sizeof(name) - 1;

	for (; c->java_looked < c->replay.module_count && !c->java; c->java_looked++) {
		struct kp_raw_string path = c->replay.modules[c->java_looked].path;

		c->java = path.len >= len && memcmp(path.text + path.len - len, name, len) == 0;
	}
	return c->java;
}

/* Its compilers keep no frame pointer unless they are told to, and no table says what they do. */
static bool is_cut_in_java(struct collector *c, const struct kp_raw_sample *s, uint16_t depth)
{
	uint32_t module = kp_replay_module_at(&c->replay, s->pid, frame_address(s, depth - 1u));

	return module && kp_replay_is_anon(&c->replay.modules[module]) && runs_java(c);
}

/* The empty stack, or "[truncated]" where the sample's outermost frame is not the root. */
static int begin_stack(struct collector *c, const struct kp_raw_sample *s, uint16_t depth,
		       uint32_t *ret, struct kp_err *err)
{
	uint32_t root, before = 0, marker;
	int r;

	*ret = 0;
	r = locate(c, s, depth - 1u, &root, err);
	if (r < 0)
		return r;
	if (depth > 1) {
		r = locate(c, s, depth - 2u, &before, err);
		if (r < 0)
			return r;
	}
	if (is_whole(c, s, depth, root, before))
		return 0;
	c->profile->truth.truncated++;
	c->profile->truth.truncated_deep += s->walk_end == KP_WALK_DEPTH;
	c->profile->truth.truncated_java +=
		s->walk_end != KP_WALK_DEPTH && is_cut_in_java(c, s, depth);
	r = kp_locate_truncated(c->profile, &marker, err);
	if (r < 0)
		return r;
	return kp_profile_stack(c->profile, 0, marker, ret, err);
}

/* The system call that the leaf is in, if those are wanted, as its callee. */
static int enter_kernel(struct collector *c, const struct kp_raw_sample *s, uint32_t *stack,
			struct kp_err *err)
{
	struct kp_site *site;
	uint32_t location;
	int r;

	if (!c->options->system_calls)
		return 0;
	r = get_site(c, s, 0, &site, err);
	if (r == 0)
		r = kp_locate_system_call(c->profile, &c->replay, c->symbolizer, c->machine, site,
					  &location, err);
	if (r < 0 || !location)
		return r;
	return kp_profile_stack(c->profile, *stack, location, stack, err);
}

static int build_stack(struct collector *c, const struct kp_raw_sample *s, uint32_t *ret,
		       struct kp_err *err)
{
	struct kp_truth *truth = &c->profile->truth;
	uint16_t depth = real_depth(c, s);
	uint32_t location;
	int r;

	r = begin_stack(c, s, depth, ret, err);
	if (r < 0)
		return r;
	for (uint32_t i = depth; i-- > 0;) {
		r = locate(c, s, i, &location, err);
		if (r < 0)
			return r;
		truth->frames++;
		truth->unnamed_frames += kp_locate_outer(c->profile, location)->unnamed;
		r = kp_profile_stack(c->profile, *ret, location, ret, err);
		if (r < 0)
			return r;
	}
	return enter_kernel(c, s, ret, err);
}

/* Who the sample is of. A thread that the file does not name bears its process's name. */
static int build_label(struct collector *c, const struct kp_raw_sample *s, uint32_t *ret,
		       struct kp_err *err)
{
	const struct kp_replay_process *process = kp_replay_process(&c->replay, s->pid);
	const struct kp_replay_thread *thread = kp_replay_thread(&c->replay, s->pid, s->tid);
	struct kp_label label = { .pid = s->pid, .tid = s->tid };
	int r;

	if (process) {
		r = kp_profile_string(c->profile, process->comm.text, process->comm.len,
				      &label.comm, err);
		if (r < 0)
			return r;
	}
	label.thread_name = label.comm;
	if (thread) {
		r = kp_profile_string(c->profile, thread->comm.text, thread->comm.len,
				      &label.thread_name, err);
		if (r < 0)
			return r;
	}
	return kp_profile_label(c->profile, &label, ret, err);
}

static void explain(struct kp_truth *t, uint64_t weight_ns)
{
	if (__builtin_add_overflow(t->explained_ns, weight_ns, &t->explained_ns))
		t->explained_ns = UINT64_MAX;
}

/* Keeps those with the most CPU time, in order. */
static void keep_unsampled(struct kp_truth *t, const struct kp_unsampled *thread)
{
	uint32_t n = t->unsampled_count < KP_UNSAMPLED_MAX ? t->unsampled_count : KP_UNSAMPLED_MAX;
	uint32_t at = n;

	t->unsampled_count++;
	while (at > 0 && t->unsampled[at - 1].cpu_ns < thread->cpu_ns)
		at--;
	if (at == KP_UNSAMPLED_MAX)
		return;
	if (n == KP_UNSAMPLED_MAX)
		n--;
	memmove(&t->unsampled[at + 1], &t->unsampled[at], (n - at) * sizeof(t->unsampled[0]));
	t->unsampled[at] = *thread;
}

/*
 * Threads that blocked the signal, or used CPU time and were not sampled. What lasts less than a tick
 * and has no sample is the rule and not worth a name; its time is in the sum.
 */
static int note_unsampled(struct collector *c, const struct kp_raw_tally *tally, struct kp_err *err)
{
	const struct kp_runtime *known = kp_runtimes_find(&c->runtimes, tally->pid, tally->tid);
	const struct kp_replay_thread *named = kp_replay_thread(&c->replay, tally->pid, tally->tid);
	struct kp_raw_string name = named ? named->comm : kp_raw_string("");
	struct kp_truth *t = &c->profile->truth;
	struct kp_unsampled thread = { .pid = tally->pid,
				       .tid = tally->tid,
				       .cpu_ns = tally->cpu_ns,
				       .samples = known ? known->samples : 0,
				       .blocks = tally->flags & KP_TALLY_BLOCKED };
	int r;

	if (thread.samples == 0)
		t->unsampled_ns += tally->cpu_ns;
	if (!thread.blocks && (thread.samples || tally->cpu_ns < UNSAMPLED_MIN_NS))
		return 0;
	r = kp_profile_string(c->profile, name.text, name.len, &thread.name, err);
	if (r == 0)
		keep_unsampled(t, &thread);
	return r;
}

static int add_sample(struct collector *c, const struct kp_raw_record *record, struct kp_err *err)
{
	const struct kp_raw_sample *s = &record->sample;
	int64_t value[KP_VALUE_MAX] = { 1 }, time;
	uint32_t stack, label;
	uint64_t weight_ns;
	int r;

	r = kp_replay_apply(&c->replay, record, err);
	if (r == 0 && record->type == KP_RAW_TALLY)
		return note_unsampled(c, &record->tally, err);
	if (r < 0 || record->type != KP_RAW_SAMPLE)
		return r;
	r = build_stack(c, s, &stack, err);
	if (r < 0)
		return r;
	r = build_label(c, s, &label, err);
	if (r < 0)
		return r;
	weight_ns = kp_runtimes_weight(&c->runtimes, s);
	time = weight_ns < INT64_MAX ? (int64_t)weight_ns : INT64_MAX;
	if (s->source != KP_SOURCE_WAIT)
		explain(&c->profile->truth, weight_ns);
	value[c->cpu_value] = s->source == KP_SOURCE_WAIT ? 0 : time;
	if (c->profile->truth.wall)
		value[c->wall_value] = time;
	return kp_profile_add(c->profile, stack, label, value, err);
}

/* ---- the whole ---- */

/* First in the table of strings, whatever values there will be: files are the same as ever. */
static int intern_values(struct collector *c, struct kp_err *err)
{
	static const char *const words[] = { "samples", "count", "cpu", "nanoseconds" };
	uint32_t ignored;
	int r = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && r == 0; i++)
		r = kp_profile_string(c->profile, words[i], strlen(words[i]), &ignored, err);
	return r;
}

static int prepare(struct collector *c, struct kp_err *err)
{
	struct kp_symbolizer_options options = {
		.debug_dirs = c->options->debug_dirs,
		.sysroot = c->options->sysroot,
		.cache = c->options->names,
	};
	int r;

	r = kp_profile_create(&c->profile, err);
	if (r == 0)
		r = intern_values(c, err);
	return r < 0 ? r : kp_symbolizer_create(&options, &c->symbolizer, err);
}

static int add_value(struct collector *c, const char *type, const char *unit, uint32_t *ret,
		     struct kp_err *err)
{
	*ret = c->profile->value_count;
	return kp_profile_value_type(c->profile, type, unit, err);
}

/* What samples are worth, now that it is known what clocks they are of. */
static int choose_values(struct collector *c, struct kp_err *err)
{
	uint32_t samples;
	int r = add_value(c, "samples", "count", &samples, err);

	if (r == 0 && c->profile->truth.wall)
		r = add_value(c, "wall", "nanoseconds", &c->wall_value, err);
	if (r == 0)
		r = add_value(c, "cpu", "nanoseconds", &c->cpu_value, err);
	c->profile->default_value = samples + 1;
	return r;
}

static int resolve_sites(struct collector *c, struct kp_err *err)
{
	const struct kp_collect_options *o = c->options;
	struct kp_symbolizer_limits limits = { .budget_ns = o->symbol_budget_ns,
					       .progress = o->progress,
					       .ctx = o->ctx };
	struct kp_symbolizer_fetch fetch = { .time_ns = o->fetch_ns,
					     .samples = c->account.samples,
					     .say = o->fetched,
					     .ctx = o->ctx };
	struct kp_sites_options options = { .pins = o->pins,
					    .limits = &limits,
					    .fetch = o->fetch_ns ? &fetch : NULL,
					    .presence = &c->presence,
					    .done = remark_module,
					    .ctx = c };
	struct kp_symbolizer_rest rest;
	int r = kp_sites_resolve(&c->sites, &c->replay, &c->jit, c->symbolizer, &options, &rest,
				 err);

	if (r < 0)
		return r;
	c->profile->truth.names_late = rest.late;
	c->profile->truth.names_late_modules = rest.late_modules;
	c->profile->truth.names_lost = rest.lost;
	return 0;
}

static int collect(struct collector *c, struct kp_err *err)
{
	struct ending ending;
	uint32_t main_mapping;
	int r;

	r = prepare(c, err);
	if (r < 0)
		return r;
	r = pass(c, survey, &ending, err);
	if (r < 0)
		return r;
	remark_ending(c, &ending);
	kp_account_finish(&c->account, c->profile);
	kp_runtimes_finish(&c->runtimes);
	r = choose_values(c, err);
	if (r < 0)
		return r;
	r = resolve_sites(c, err);
	if (r < 0)
		return r;
	r = kp_locate_module(c->profile, &c->replay, c->main_module, &main_mapping, err);
	if (r < 0)
		return r;
	kp_replay_rewind(&c->replay);
	return pass(c, add_sample, &ending, err);
}

int kp_collect(const void *data, size_t size, const struct kp_collect_options *options,
	       struct kp_profile **ret, struct kp_err *err)
{
	struct collector c = { .options = options, .data = data, .size = size };
	int r = collect(&c, err);

	kp_symbolizer_destroy(c.symbolizer);
	kp_sites_deinit(&c.sites);
	kp_presence_deinit(&c.presence);
	kp_jit_deinit(&c.jit);
	kp_replay_deinit(&c.replay);
	kp_runtimes_deinit(&c.runtimes);
	if (r < 0) {
		kp_profile_destroy(c.profile);
		return r;
	}
	*ret = c.profile;
	return 0;
}
