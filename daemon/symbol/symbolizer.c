/*
 * The symbolizer: see symbolizer.h. Runs in the daemon, in one thread, and in workers. Keeps the modules and what
 * was handed out; of the modules' files and indexes only those of the last one asked for, so that
 * a profile of hundreds of libraries does not hold them all.
 */
#include "daemon/symbol/symbolizer.h"

#include "daemon/symbol/code.h"
#include "daemon/symbol/lookup.h"
#include "daemon/symbol/symbolizer_state.h"

#include <stdlib.h>
#include <string.h>

#define STANDARD_DIR "/usr/lib/debug"

/* DIR + path, in the arena. */
static const char *below(struct kp_symbolizer *s, const char *dir, const char *path)
{
	size_t dir_len = strlen(dir), path_len = strlen(path);
	char *ret = kp_arena_alloc(&s->arena, dir_len + path_len + 1);

	if (ret) {
		memcpy(ret, dir, dir_len);
		memcpy(ret + dir_len, path, path_len + 1);
	}
	return ret;
}

/* Behind those that are given, that of the other root. */
static int copy_dirs(struct kp_symbolizer *s, const char *const *dirs, const char *sysroot,
		     struct kp_err *err)
{
	static const char *const standard[] = { STANDARD_DIR, NULL };
	size_t n = 0;

	if (!dirs)
		dirs = standard;
	while (dirs[n])
		n++;
	s->debug_dirs = kp_arena_alloc(&s->arena, (n + 3) * sizeof(*s->debug_dirs));
	if (!s->debug_dirs)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < n; i++) {
		s->debug_dirs[i] = kp_arena_copy(&s->arena, dirs[i], strlen(dirs[i]));
		if (!s->debug_dirs[i])
			return kp_fail_nomem(err);
	}
	if (!sysroot)
		return 0;
	s->sysroot = below(s, sysroot, "");
	s->debug_dirs[n] = below(s, sysroot, STANDARD_DIR);
	return s->sysroot && s->debug_dirs[n] ? 0 : kp_fail_nomem(err);
}

int kp_symbolizer_create(const struct kp_symbolizer_options *options, struct kp_symbolizer **ret,
			 struct kp_err *err)
{
	struct kp_symbolizer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return kp_fail_nomem(err);
	s->workers = options ? options->workers : 0;
	s->cache = options ? options->cache : NULL;
	r = copy_dirs(s, options ? options->debug_dirs : NULL, options ? options->sysroot : NULL,
		      err);
	if (r == 0)
		r = kp_names_create(&s->arena, &s->names, err);
	if (r < 0) {
		kp_symbolizer_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

void kp_symbolizer_destroy(struct kp_symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		kp_module_destroy(s->module[i]);
	free(s->module);
	for (size_t i = 0; i < s->kept_count; i++)
		kp_kept_answers_deinit(&s->kept[i]);
	free(s->kept);
	kp_names_destroy(s->names);
	kp_arena_deinit(&s->arena);
	free(s);
}

int kp_symbolizer_module(struct kp_symbolizer *s, const struct kp_module_file *file,
			 uint32_t *ret_module, struct kp_err *err)
{
	int r;

	for (size_t i = 0; i < s->count; i++) {
		if (kp_module_is(s->module[i], file)) {
			*ret_module = (uint32_t)i;
			return 0;
		}
	}
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? s->capacity * 2 : 16;
		void *grown = reallocarray(s->module, capacity, sizeof(*s->module));

		if (!grown)
			return kp_fail_nomem(err);
		s->module = grown;
		s->capacity = capacity;
	}
	r = kp_module_create(file, &s->module[s->count], err);
	if (r < 0)
		return r;
	*ret_module = (uint32_t)s->count++;
	return 0;
}

static int resolve_one(struct kp_symbolizer *s, struct kp_module *m, uint64_t offset,
		       struct kp_frames *ret, struct kp_err *err)
{
	*ret = (struct kp_frames){ .address = offset };
	if (!m->file || !kp_elf_file_address(m->file, offset, &ret->address))
		return 0;
	return kp_lookup(m, s->names, &s->arena, ret->address, ret, err);
}

int kp_symbolizer_resolve(struct kp_symbolizer *s, uint32_t module, const uint64_t *file_offset,
			  size_t n, struct kp_frames *ret, struct kp_err *err)
{
	struct kp_module *m = s->module[module];
	int r;

	if (s->open && s->open != m)
		kp_module_close(s->open);
	s->open = m;
	r = kp_module_open(m, s->sysroot, s->debug_dirs, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (i && file_offset[i] == file_offset[i - 1])
			ret[i] = ret[i - 1];
		else
			r = resolve_one(s, m, file_offset[i], &ret[i], err);
	}
	if (r < 0)
		kp_module_close(m);
	return r;
}

char *kp_symbolizer_say(struct kp_symbolizer *s, size_t size, struct kp_frames *ret)
{
	struct kp_frame *frame = kp_arena_alloc(&s->arena, sizeof(*frame));
	char *text = kp_arena_alloc(&s->arena, size);

	if (!frame || !text)
		return NULL;
	*frame = (struct kp_frame){ .name = text, .system_name = text };
	ret->frame = frame;
	ret->count = 1;
	return text;
}

size_t kp_symbolizer_code(const struct kp_symbolizer *s, uint32_t module, uint64_t file_offset,
			  void *ret, size_t n)
{
	return kp_code_read(&s->module[module]->known, s->sysroot, file_offset, ret, n);
}

const char *kp_symbolizer_note(const struct kp_symbolizer *s, uint32_t module)
{
	const char *note = s->module[module]->note;

	return note[0] ? note : NULL;
}
