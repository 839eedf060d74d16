/*
 * The set of sampled places, and their look-up: sorted by file and offset, so that the symbolizer
 * gets each file once, with ascending distinct offsets. Runs in the daemon.
 */
#include "daemon/profile/sites.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"

#include <stdlib.h>
#include <string.h>

void kp_sites_deinit(struct kp_sites *s)
{
	free(s->site);
	kp_index_deinit(&s->index);
	*s = (struct kp_sites){ 0 };
}

static bool same_site(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_sites *s = ctx;
	const struct kp_site *a = &s->site[id], *b = key;

	return a->module == b->module && a->address == b->address;
}

int kp_sites_get(struct kp_sites *s, uint32_t module, uint64_t address, struct kp_site **ret,
		 struct kp_err *err)
{
	struct kp_site key = { .module = module, .address = address };
	uint64_t hash = kp_hash_word(module, address);
	uint32_t id = kp_index_find(&s->index, hash, same_site, s, &key);
	int r;

	if (id == KP_INDEX_NONE) {
		r = kp_array_reserve(s->site, &s->capacity, s->count + UINT64_C(1), err);
		if (r < 0)
			return r;
		r = kp_index_add(&s->index, hash, s->count, err);
		if (r < 0)
			return r;
		id = s->count++;
		s->site[id] = key;
	}
	*ret = &s->site[id];
	return 0;
}

/* ---- look-up ---- */

struct query {
	uint32_t file; /* the symbolizer's number */
	uint32_t site;
	uint64_t offset;
};

static int compare_queries(const void *left, const void *right)
{
	const struct query *a = left, *b = right;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->site < b->site ? -1 : a->site > b->site;
}

static int open_module(const struct kp_replay *replay, uint32_t module, const struct kp_pins *pins,
		       struct kp_symbolizer *symbolizer, uint32_t *ret, struct kp_err *err)
{
	const struct kp_replay_module *m = &replay->modules[module];
	const struct kp_raw_image *image = kp_replay_image(replay, m);
	_cleanup_(kp_freep) char *path = strndup(m->path.len ? m->path.text : "", m->path.len);
	struct kp_module_file file = { .path = path, .fd = -1 };

	if (!path)
		return kp_fail_nomem(err);
	if (m->build_id.len) {
		file.build_id = (const uint8_t *)m->build_id.text;
		file.build_id_len = m->build_id.len;
	}
	if (image) {
		file.image = image->bytes.text;
		file.image_size = image->bytes.len;
	}
	if (pins) {
		file.fd = kp_pins_find(pins, m->path.text, m->path.len, file.build_id,
				       file.build_id_len);
	}
	return kp_symbolizer_module(symbolizer, &file, ret, err);
}

/* Executable memory that no file is behind has no names to look up. */
static bool has_file(const struct kp_replay *replay, uint32_t module)
{
	return module && replay->modules[module].path.len &&
	       !kp_replay_is_anon(&replay->modules[module]);
}

/* The symbolizer's number of each module that a site lies in. */
static int open_modules(const struct kp_sites *s, const struct kp_replay *replay,
			const struct kp_pins *pins, struct kp_symbolizer *symbolizer,
			uint32_t *file, struct kp_err *err)
{
	for (uint32_t i = 0; i < replay->module_count; i++)
		file[i] = UINT32_MAX;
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t module = s->site[i].module;
		int r;

		if (!has_file(replay, module) || file[module] != UINT32_MAX)
			continue;
		r = open_module(replay, module, pins, symbolizer, &file[module], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint32_t make_queries(const struct kp_sites *s, const struct kp_replay *replay,
			     const uint32_t *file, struct query *query)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct kp_site *site = &s->site[i];
		const struct kp_replay_module *m;

		if (!has_file(replay, site->module))
			continue;
		m = &replay->modules[site->module];
		query[n++] = (struct query){
			.file = file[site->module],
			.site = i,
			.offset = site->address - m->start + m->file_offset,
		};
	}
	qsort(query, n, sizeof(*query), compare_queries);
	return n;
}

/* The distinct offsets of the queries, and for each file that they are of what is asked of it. */
static size_t make_requests(const struct query *query, uint32_t n, uint64_t *offset,
			    struct kp_frames *frames, struct kp_symbolizer_request *request)
{
	size_t requests = 0;
	uint32_t distinct = 0;

	for (uint32_t i = 0; i < n; i++) {
		bool new_file = i == 0 || query[i].file != query[i - 1].file;

		if (new_file)
			request[requests++] = (struct kp_symbolizer_request){
				.module = query[i].file,
				.file_offset = offset + distinct,
				.ret = frames + distinct,
			};
		if (!new_file && query[i].offset == query[i - 1].offset)
			continue;
		offset[distinct++] = query[i].offset;
		request[requests - 1].count++;
	}
	return requests;
}

/* frames: of the distinct offsets. */
static void take_answers(struct kp_sites *s, const struct query *query, uint32_t n,
			 const struct kp_frames *frames)
{
	for (uint32_t i = 0; i < n; i++) {
		frames += i && (query[i].file != query[i - 1].file ||
				query[i].offset != query[i - 1].offset);
		s->site[query[i].site].frames = *frames;
	}
}

/* What a program has compiled for itself is named by what it has told. */
static void resolve_compiled(struct kp_sites *s, const struct kp_replay *replay,
			     const struct kp_jit *jit)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct kp_site *site = &s->site[i];
		const struct kp_replay_module *m = &replay->modules[site->module];
		const struct kp_frame *found;

		if (!site->module || !kp_replay_is_anon(m))
			continue;
		found = kp_jit_find(jit, m->pid, site->address);
		if (found)
			site->frames = (struct kp_frames){ found, 1, site->address };
	}
}

/* Several mappings may be of one file. */
static void count_samples(const struct kp_replay *replay, const uint32_t *file,
			  const struct kp_presence *presence, struct kp_symbolizer_request *request,
			  size_t requests)
{
	for (size_t i = 0; i < requests; i++)
		for (uint32_t m = 0; m < replay->module_count; m++)
			if (file[m] == request[i].module)
				request[i].samples += kp_presence_samples(presence, m);
}

int kp_sites_resolve(struct kp_sites *s, const struct kp_replay *replay, const struct kp_jit *jit,
		     struct kp_symbolizer *symbolizer, const struct kp_sites_options *options,
		     struct kp_symbolizer_rest *ret, struct kp_err *err)
{
	_cleanup_(kp_freep) uint32_t *file = calloc(replay->module_count + 1u, sizeof(*file));
	_cleanup_(kp_freep) struct query *query = calloc(s->count + 1u, sizeof(*query));
	_cleanup_(kp_freep) uint64_t *offset = calloc(s->count + 1u, sizeof(*offset));
	_cleanup_(kp_freep) struct kp_frames *frames = calloc(s->count + 1u, sizeof(*frames));
	_cleanup_(kp_freep) struct kp_symbolizer_request *request =
		calloc(replay->module_count + 1u, sizeof(*request));
	size_t requests;
	uint32_t n;
	int r;

	if (!file || !query || !offset || !frames || !request)
		return kp_fail_nomem(err);
	r = open_modules(s, replay, options->pins, symbolizer, file, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->count; i++)
		s->site[i].file =
			has_file(replay, s->site[i].module) ? file[s->site[i].module] : UINT32_MAX;
	resolve_compiled(s, replay, jit);
	n = make_queries(s, replay, file, query);
	requests = make_requests(query, n, offset, frames, request);
	if (options->fetch) {
		count_samples(replay, file, options->presence, request, requests);
		r = kp_symbolizer_fetch_all(symbolizer, request, requests, options->limits,
					    options->fetch, ret, err);
	} else {
		r = kp_symbolizer_resolve_all(symbolizer, request, requests, options->limits, ret,
					      err);
	}
	if (r < 0)
		return r;
	take_answers(s, query, n, frames);
	for (size_t i = 0; i < requests; i++)
		options->done(options->ctx, request[i].module);
	return 0;
}
