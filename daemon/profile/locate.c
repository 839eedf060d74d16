/*
 * Locations for sites. Runs in the daemon.
 */
#include "daemon/profile/locate.h"

#include "common/cleanup.h"
#include "daemon/profile/syscalls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int intern_hex(struct kp_profile *p, struct kp_raw_string bytes, uint32_t *ret,
		      struct kp_err *err)
{
	_cleanup_(kp_freep) char *hex = malloc(2 * (size_t)bytes.len + 1);

	if (!hex)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < bytes.len; i++)
		sprintf(hex + 2 * (size_t)i, "%02x", (uint8_t)bytes.text[i]);
	return kp_profile_string(p, hex, 2 * (size_t)bytes.len, ret, err);
}

int kp_locate_module(struct kp_profile *p, const struct kp_replay *replay, uint32_t module,
		     uint32_t *ret, struct kp_err *err)
{
	const struct kp_replay_module *m;
	struct kp_mapping mapping;
	int r;

	*ret = 0;
	if (!module)
		return 0;
	m = &replay->modules[module];
	mapping = (struct kp_mapping){ .start = m->start,
				       .end = m->end,
				       .file_offset = m->file_offset };
	r = kp_profile_string(p, m->path.text, m->path.len, &mapping.filename, err);
	if (r < 0)
		return r;
	r = intern_hex(p, m->build_id, &mapping.build_id, err);
	if (r < 0)
		return r;
	return kp_profile_mapping(p, &mapping, ret, err);
}

/* ---- names that nobody gave ---- */

/* The last component of a path, without brackets and without what the kernel adds to it. */
static struct kp_raw_string base_name(struct kp_raw_string path)
{
	static const char deleted[] = " (deleted)";
	const char *slash = path.len ? memrchr(path.text, '/', path.len) : NULL;
	uint32_t cut = sizeof(deleted) - 1;

	if (slash && slash + 1 < path.text + path.len) {
		path.len -= (uint32_t)(slash + 1 - path.text);
		path.text = slash + 1;
	}
	if (path.len > cut && memcmp(path.text + path.len - cut, deleted, cut) == 0)
		path.len -= cut;
	if (path.len > 2 && path.text[0] == '[' && path.text[path.len - 1] == ']') {
		path.text++;
		path.len -= 2;
	}
	return path;
}

static int name_by_module(struct kp_profile *p, struct kp_raw_string path, uint64_t address,
			  uint32_t *ret, struct kp_err *err)
{
	struct kp_raw_string base = base_name(path);
	_cleanup_(kp_freep) char *name = malloc((size_t)base.len + 32);
	size_t len;

	if (!name)
		return kp_fail_nomem(err);
	/* The name may hold NULs, so no %s: kp_profile_string() escapes them. */
	name[0] = '[';
	memcpy(name + 1, base.text, base.len);
	len = 1 + (size_t)base.len;
	len += (size_t)sprintf(name + len, "+0x%" PRIx64 "]", address);
	return kp_profile_string(p, name, len, ret, err);
}

static int name_site(struct kp_profile *p, const struct kp_replay *replay,
		     const struct kp_site *site, uint32_t *ret, struct kp_err *err)
{
	const struct kp_replay_module *m = site->module ? &replay->modules[site->module] : NULL;

	if (!m || !m->path.len)
		return kp_profile_string(p, "[unknown]", strlen("[unknown]"), ret, err);
	if (kp_replay_is_anon(m))
		return kp_profile_string(p, "[anon]", strlen("[anon]"), ret, err);
	return name_by_module(p, m->path, site->frames.address, ret, err);
}

/* ---- lines ---- */

/* mapping: where it lies. Two modules may each have a function of that name. */
static int line_of_frame(struct kp_profile *p, const struct kp_frame *frame, uint32_t mapping,
			 struct kp_line *ret, struct kp_err *err)
{
	const char *system_name = frame->system_name ? frame->system_name : frame->name;
	struct kp_function f = { .start_line = frame->start_line };
	int r;

	r = kp_profile_string(p, frame->name, strlen(frame->name), &f.name, err);
	if (r < 0)
		return r;
	r = kp_profile_string(p, system_name, strlen(system_name), &f.system_name, err);
	if (r < 0)
		return r;
	if (frame->file) {
		r = kp_profile_string(p, frame->file, strlen(frame->file), &f.file, err);
		if (r < 0)
			return r;
	} else {
		f.module = p->mappings[mapping].filename;
	}
	ret->line = frame->line;
	return kp_profile_function(p, &f, &ret->function, err);
}

static int locate_named(struct kp_profile *p, const struct kp_site *site, uint32_t mapping,
			uint32_t *ret, struct kp_err *err)
{
	const struct kp_frames *frames = &site->frames;
	_cleanup_(kp_freep) struct kp_line *line = calloc(frames->count, sizeof(*line));
	int r;

	if (!line)
		return kp_fail_nomem(err);
	for (uint32_t i = 0; i < frames->count; i++) {
		r = line_of_frame(p, &frames->frame[i], mapping, &line[i], err);
		if (r < 0)
			return r;
	}
	return kp_profile_location(p, mapping, site->address, line, frames->count, ret, err);
}

static int locate_unnamed(struct kp_profile *p, const struct kp_replay *replay,
			  const struct kp_site *site, uint32_t mapping, uint32_t *ret,
			  struct kp_err *err)
{
	struct kp_function f = { .unnamed = true };
	struct kp_line line = { 0 };
	int r;

	r = name_site(p, replay, site, &f.name, err);
	if (r < 0)
		return r;
	f.system_name = f.name;
	r = kp_profile_function(p, &f, &line.function, err);
	if (r < 0)
		return r;
	return kp_profile_location(p, mapping, site->address, &line, 1, ret, err);
}

int kp_locate_site(struct kp_profile *p, const struct kp_replay *replay, struct kp_site *site,
		   uint32_t *ret, struct kp_err *err)
{
	uint32_t mapping;
	int r;

	if (!site->location) {
		r = kp_locate_module(p, replay, site->module, &mapping, err);
		if (r < 0)
			return r;
		if (site->frames.count)
			r = locate_named(p, site, mapping, &site->location, err);
		else
			r = locate_unnamed(p, replay, site, mapping, &site->location, err);
		if (r < 0)
			return r;
	}
	*ret = site->location;
	return 0;
}

/* ---- what is no code of the program ---- */

static int locate_word(struct kp_profile *p, const char *name, bool marker, uint32_t *ret,
		       struct kp_err *err)
{
	struct kp_function f = { .marker = marker };
	struct kp_line line = { 0 };
	int r;

	r = kp_profile_string(p, name, strlen(name), &f.name, err);
	if (r < 0)
		return r;
	f.system_name = f.name;
	r = kp_profile_function(p, &f, &line.function, err);
	if (r < 0)
		return r;
	return kp_profile_location(p, 0, 0, &line, 1, ret, err);
}

/* Around the site, in the file or image that the code is in. */
static int find_system_call(const struct kp_replay *replay, const struct kp_symbolizer *symbolizer,
			    uint16_t machine, const struct kp_site *site)
{
	const struct kp_replay_module *m = &replay->modules[site->module];
	uint8_t code[KP_SYSCALL_LOOK + 4];
	uint64_t offset, before;
	size_t size;

	if (!site->module || site->file == UINT32_MAX)
		return KP_SYSCALL_NONE;
	offset = site->address - m->start + m->file_offset;
	before = offset < KP_SYSCALL_LOOK ? offset : KP_SYSCALL_LOOK;
	size = kp_symbolizer_code(symbolizer, site->file, offset - before, code,
				  (size_t)before + 4);
	return size < before ? KP_SYSCALL_NONE
			     : kp_syscall_number(machine, code, (size_t)before, size);
}

int kp_locate_system_call(struct kp_profile *p, const struct kp_replay *replay,
			  const struct kp_symbolizer *symbolizer, uint16_t machine,
			  struct kp_site *site, uint32_t *ret, struct kp_err *err)
{
	const char *known;
	char name[64];
	int number, r;

	*ret = site->system_call;
	if (site->system_call_known)
		return 0;
	site->system_call_known = true;
	number = find_system_call(replay, symbolizer, machine, site);
	if (number == KP_SYSCALL_NONE)
		return 0;
	known = kp_syscall_name(machine, number);
	if (known)
		snprintf(name, sizeof(name), "[syscall:%s]", known);
	else if (number >= 0)
		snprintf(name, sizeof(name), "[syscall:%d]", number);
	else
		snprintf(name, sizeof(name), "[syscall]");
	r = locate_word(p, name, false, &site->system_call, err);
	*ret = site->system_call;
	return r;
}

int kp_locate_truncated(struct kp_profile *p, uint32_t *ret, struct kp_err *err)
{
	return locate_word(p, "[truncated]", true, ret, err);
}

const struct kp_function *kp_locate_outer(const struct kp_profile *p, uint32_t location)
{
	const struct kp_location *l = &p->locations[location];

	return &p->functions[p->lines[l->first_line + l->line_count - 1].function];
}
