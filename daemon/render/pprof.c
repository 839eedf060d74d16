/*
 * pprof's format: a gzipped protobuf message (proto/profile.proto). Written piece by piece: a
 * repeated field of a message may lie in several messages one behind the other, so each sample,
 * mapping, location, function and string is packed alone into the gzip stream, and memory does not
 * grow with the profile.
 *
 * What readers insist on, beyond the format: ids are 1..N in the order of their table (Parca);
 * every location has a line, or speedscope drops the frame; every mapping says that it has
 * functions, or `go tool pprof` looks up names of its own; labels have a text or a number other
 * than 0 (pprof drops the rest); the first mapping is the program. The profile core has these
 * orders already, with index 0 for "none" in each array.
 *
 * Labels: numeric pid and tid, textual comm and thread_name, on every sample, whether threads are
 * to be split or not. `-tagroot=thread_name`, `-tagfocus` and the like ask for them when the file
 * is read, and then nobody can add them any more; a reader that does not ask sums over them. They
 * cost a sample for each stack and thread: with eight workers that do the same up to eight times
 * the samples, of two packed numbers for each frame. A thread's names are those of the time of the
 * sample: a worker may be under its creator's name for its first moments.
 */
#include "daemon/render/render.h"

#include "common/cleanup.h"
#include "daemon/render/gzip.h"
#include "daemon/render/text.h"
#include "daemon/render/truth.h"
#include "profile.pb-c.h"

#include <string.h>

/* Strings that are not the profile's own; their indices follow those of the profile. */
enum extra { EXTRA_PID, EXTRA_TID, EXTRA_THREAD_NAME, EXTRA_COMM, EXTRA_COMMENT };
static const char *const extra_text[] = { "pid", "tid", "thread_name", "comm" };

struct writer {
	const struct kp_profile *p;
	struct kp_gzip *gzip;
	uint8_t *buffer;
	size_t buffer_bytes;
	char *comments; /* lines, each ended by a NUL instead of the newline */
	uint32_t comment_count;
};

static int64_t extra(const struct writer *w, uint32_t number)
{
	return (int64_t)w->p->string_count + number;
}

/* Packs a message and appends it to the stream. */
static int put(struct writer *w, const Perftools__Profiles__Profile *m, struct kp_err *err)
{
	size_t bytes = perftools__profiles__profile__get_packed_size(m);

	if (bytes > w->buffer_bytes) {
		uint8_t *grown = realloc(w->buffer, 2 * bytes);

		if (!grown)
			return kp_fail_nomem(err);
		w->buffer = grown;
		w->buffer_bytes = 2 * bytes;
	}
	perftools__profiles__profile__pack(m, w->buffer);
	return kp_gzip_write(w->gzip, w->buffer, bytes, err);
}

/* ---- comments ---- */

/* The truth, a comment a line, and behind it the command. */
static int make_comments(struct writer *w, struct kp_err *err)
{
	const char *command = w->p->strings[w->p->truth.command];
	size_t size;
	FILE *out = open_memstream(&w->comments, &size);
	int r;

	if (!out)
		return kp_fail_nomem(err);
	kp_truth_put(w->p, "", out);
	if (*command) {
		fputs("command: ", out);
		kp_text_put(out, command, 0);
		putc('\n', out);
	}
	r = kp_text_close(out, &w->comments, err);
	if (r < 0)
		return r;
	for (char *newline = w->comments; (newline = strchr(newline, '\n')); newline++) {
		*newline = 0;
		w->comment_count++;
	}
	return 0;
}

/* ---- the parts ---- */

/* Distance of two samples: of the clock in use, else what was asked for. */
static int64_t period_ns(const struct kp_truth *t)
{
	uint64_t period = kp_truth_period_ns(t);

	if (!period && t->rate_mhz)
		period = UINT64_C(1000000000000) / t->rate_mhz;
	return (int64_t)period;
}

/* Parca takes a profile without a duration for another kind: never 0. */
static int64_t duration_ns(const struct kp_truth *t)
{
	if (t->window_ns)
		return (int64_t)t->window_ns;
	return t->explained_ns ? (int64_t)t->explained_ns : 1;
}

static int put_head(struct writer *w, struct kp_err *err)
{
	const struct kp_profile *p = w->p;
	Perftools__Profiles__ValueType type[KP_VALUE_MAX], *types[KP_VALUE_MAX];
	_cleanup_(kp_freep) int64_t *comment = calloc(w->comment_count + 1u, sizeof(*comment));
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;

	if (!comment)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < p->value_count; i++) {
		perftools__profiles__value_type__init(&type[i]);
		type[i].type = p->value_type[i].type;
		type[i].unit = p->value_type[i].unit;
		types[i] = &type[i];
	}
	for (uint32_t i = 0; i < w->comment_count; i++)
		comment[i] = extra(w, EXTRA_COMMENT + i);
	m.sample_type = types;
	m.n_sample_type = p->value_count;
	m.period_type = types[p->default_value];
	m.period = period_ns(&p->truth);
	m.time_nanos = (int64_t)p->truth.start_unix_ns;
	m.duration_nanos = duration_ns(&p->truth);
	m.default_sample_type = p->value_type[p->default_value].type;
	m.comment = comment;
	m.n_comment = w->comment_count;
	return put(w, &m, err);
}

/* The labels of a sample: label[] and labels[] have room for four. Returns how many. */
static size_t fill_labels(const struct writer *w, const struct kp_label *l,
			  Perftools__Profiles__Label *label, Perftools__Profiles__Label **labels)
{
	const struct {
		uint32_t key;
		int64_t str, num;
	} all[] = {
		{ EXTRA_PID, 0, l->pid },
		{ EXTRA_TID, 0, l->tid },
		{ EXTRA_THREAD_NAME, l->thread_name, 0 },
		{ EXTRA_COMM, l->comm, 0 },
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (!all[i].str && !all[i].num)
			continue;
		perftools__profiles__label__init(&label[n]);
		label[n].key = extra(w, all[i].key);
		label[n].str = all[i].str;
		label[n].num = all[i].num;
		labels[n] = &label[n];
		n++;
	}
	return n;
}

static int put_sample(struct writer *w, const struct kp_sample *s, struct kp_err *err)
{
	const struct kp_profile *p = w->p;
	_cleanup_(kp_freep) uint64_t *location =
		calloc(p->stacks[s->stack].depth + 1u, sizeof(*location));
	Perftools__Profiles__Label label[4], *labels[4];
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT, *samples = &sample;
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;
	int64_t value[KP_VALUE_MAX];

	if (!location)
		return kp_fail_nomem(err);
	for (uint32_t at = s->stack; at; at = p->stacks[at].parent)
		location[sample.n_location_id++] = p->stacks[at].location;
	memcpy(value, s->value, sizeof(value));
	sample.location_id = location;
	sample.value = value;
	sample.n_value = p->value_count;
	sample.label = labels;
	sample.n_label = fill_labels(w, &p->labels[s->label], label, labels);
	m.sample = &samples;
	m.n_sample = 1;
	return put(w, &m, err);
}

static int put_mapping(struct writer *w, uint32_t id, struct kp_err *err)
{
	const struct kp_mapping *mapping = &w->p->mappings[id];
	Perftools__Profiles__Mapping out = PERFTOOLS__PROFILES__MAPPING__INIT, *outs = &out;
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;

	out.id = id;
	out.memory_start = mapping->start;
	out.memory_limit = mapping->end;
	out.file_offset = mapping->file_offset;
	out.filename = mapping->filename;
	out.build_id = mapping->build_id;
	out.has_functions = 1;
	out.has_filenames = 1;
	out.has_line_numbers = 1;
	out.has_inline_frames = 1;
	m.mapping = &outs;
	m.n_mapping = 1;
	return put(w, &m, err);
}

static int put_location(struct writer *w, uint32_t id, struct kp_err *err)
{
	const struct kp_location *l = &w->p->locations[id];
	_cleanup_(kp_freep) Perftools__Profiles__Line *line = calloc(l->line_count, sizeof(*line));
	_cleanup_(kp_freep) Perftools__Profiles__Line **lines =
		calloc(l->line_count, sizeof(*lines));
	Perftools__Profiles__Location out = PERFTOOLS__PROFILES__LOCATION__INIT, *outs = &out;
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;

	if (!line || !lines)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < l->line_count; i++) {
		perftools__profiles__line__init(&line[i]);
		line[i].function_id = w->p->lines[l->first_line + i].function;
		line[i].line = w->p->lines[l->first_line + i].line;
		lines[i] = &line[i];
	}
	out.id = id;
	out.mapping_id = l->mapping;
	out.address = l->address;
	out.line = lines;
	out.n_line = l->line_count;
	m.location = &outs;
	m.n_location = 1;
	return put(w, &m, err);
}

static int put_function(struct writer *w, uint32_t id, struct kp_err *err)
{
	const struct kp_function *f = &w->p->functions[id];
	Perftools__Profiles__Function out = PERFTOOLS__PROFILES__FUNCTION__INIT, *outs = &out;
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;

	out.id = id;
	out.name = f->name;
	out.system_name = f->system_name;
	out.filename = f->file;
	out.start_line = f->start_line;
	m.function = &outs;
	m.n_function = 1;
	return put(w, &m, err);
}

/* `go tool pprof -traces` and others print names as they are: no control characters. */
static int put_string(struct writer *w, const char *text, struct kp_err *err)
{
	_cleanup_(kp_freep) char *copy = strdup(text);
	Perftools__Profiles__Profile m = PERFTOOLS__PROFILES__PROFILE__INIT;

	if (!copy)
		return kp_fail_nomem(err);
	kp_text_blank(copy);
	m.string_table = &copy;
	m.n_string_table = 1;
	return put(w, &m, err);
}

static int put_strings(struct writer *w, struct kp_err *err)
{
	const char *comment = w->comments;
	int r = 0;

	for (uint32_t i = 0; i < w->p->string_count && r == 0; i++)
		r = put_string(w, w->p->strings[i], err);
	for (uint32_t i = 0; i < EXTRA_COMMENT && r == 0; i++)
		r = put_string(w, extra_text[i], err);
	for (uint32_t i = 0; i < w->comment_count && r == 0; i++) {
		r = put_string(w, comment, err);
		comment += strlen(comment) + 1;
	}
	return r;
}

static int put_all(struct writer *w, struct kp_err *err)
{
	const struct kp_profile *p = w->p;
	int r = put_head(w, err);

	for (uint32_t i = 0; i < p->sample_count && r == 0; i++)
		r = put_sample(w, &p->samples[i], err);
	for (uint32_t i = 1; i < p->mapping_count && r == 0; i++)
		r = put_mapping(w, i, err);
	for (uint32_t i = 1; i < p->location_count && r == 0; i++)
		r = put_location(w, i, err);
	for (uint32_t i = 1; i < p->function_count && r == 0; i++)
		r = put_function(w, i, err);
	if (r == 0)
		r = put_strings(w, err);
	return r == 0 ? kp_gzip_finish(w->gzip, err) : r;
}

static int render(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		  struct kp_err *err)
{
	struct writer w = { .p = p };
	int r = make_comments(&w, err);

	(void)options; /* all are told apart already */
	if (r == 0)
		r = kp_gzip_create(out, &w.gzip, err);
	if (r == 0)
		r = put_all(&w, err);
	kp_gzip_destroy(w.gzip);
	free(w.buffer);
	free(w.comments);
	return r;
}

const struct kp_renderer kp_render_pprof = {
	.name = "pprof",
	.extension = ".pb.gz",
	.summary = "pprof's gzipped protobuf, for `go tool pprof` and many others",
	.hint = "go tool pprof -http=:",
	.render = render,
};
