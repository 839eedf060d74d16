/*
 * Processes, threads and modules as the records tell of them. Nothing is looked up in the system:
 * the target may be gone, and this may be another machine. Runs in the daemon.
 */
#include "daemon/profile/replay.h"

#include "daemon/profile/array.h"

#include <stdlib.h>
#include <string.h>

bool kp_raw_string_same(struct kp_raw_string a, struct kp_raw_string b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

/* ---- processes ---- */

static bool same_process(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_replay *r = ctx;
	const uint32_t *pid = key;

	return r->processes[id].pid == *pid;
}

static struct kp_replay_process *find_process(const struct kp_replay *r, uint32_t pid)
{
	uint32_t id = kp_index_find(&r->process_index, kp_hash_word(0, pid), same_process, r, &pid);

	return id == KP_INDEX_NONE ? NULL : &r->processes[id];
}

const struct kp_replay_process *kp_replay_process(const struct kp_replay *r, uint32_t pid)
{
	return find_process(r, pid);
}

static int add_process(struct kp_replay *r, uint32_t pid, struct kp_replay_process **ret,
		       struct kp_err *err)
{
	int result;

	result = kp_array_reserve(r->processes, &r->process_capacity,
				  r->process_count + UINT64_C(1), err);
	if (result < 0)
		return result;
	result = kp_index_add(&r->process_index, kp_hash_word(0, pid), r->process_count, err);
	if (result < 0)
		return result;
	*ret = &r->processes[r->process_count++];
	**ret = (struct kp_replay_process){ .pid = pid };
	return 0;
}

/*
 * A second PROCESS with another program is an exec (or the pid's next owner): nothing of the old
 * address space is left. With the same program it may be a mere change of name; modules stay, and
 * those of a true exec are replaced by the MODULEs that follow. One that was forked starts with what
 * its parent has mapped.
 */
static int apply_process(struct kp_replay *r, const struct kp_raw_process *record,
			 struct kp_err *err)
{
	struct kp_replay_process *p = find_process(r, record->pid);
	const struct kp_replay_process *parent;
	int result;

	if (!p) {
		result = add_process(r, record->pid, &p, err);
		if (result < 0)
			return result;
	} else if (!kp_raw_string_same(p->exe, record->exe)) {
		kp_address_space_deinit(&p->space);
	}
	parent = record->parent == record->pid ? NULL : find_process(r, record->parent);
	if (parent) {
		result = kp_address_space_copy(&p->space, &parent->space, err);
		if (result < 0)
			return result;
	}
	p->comm = record->comm;
	p->exe = record->exe;
	return 0;
}

/* ---- threads ---- */

static uint64_t hash_thread(uint32_t pid, uint32_t tid)
{
	return kp_hash_word(pid, tid);
}

static bool same_thread(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_replay *r = ctx;
	const struct kp_replay_thread *a = &r->threads[id], *b = key;

	return a->pid == b->pid && a->tid == b->tid;
}

static struct kp_replay_thread *find_thread(const struct kp_replay *r, uint32_t pid, uint32_t tid)
{
	struct kp_replay_thread key = { .pid = pid, .tid = tid };
	uint32_t id = kp_index_find(&r->thread_index, hash_thread(pid, tid), same_thread, r, &key);

	return id == KP_INDEX_NONE ? NULL : &r->threads[id];
}

const struct kp_replay_thread *kp_replay_thread(const struct kp_replay *r, uint32_t pid,
						uint32_t tid)
{
	return find_thread(r, pid, tid);
}

static int apply_thread(struct kp_replay *r, const struct kp_raw_thread *record, struct kp_err *err)
{
	struct kp_replay_thread *t = find_thread(r, record->pid, record->tid);
	int result;

	if (!t) {
		result = kp_array_reserve(r->threads, &r->thread_capacity,
					  r->thread_count + UINT64_C(1), err);
		if (result < 0)
			return result;
		result = kp_index_add(&r->thread_index, hash_thread(record->pid, record->tid),
				      r->thread_count, err);
		if (result < 0)
			return result;
		t = &r->threads[r->thread_count++];
	}
	*t = (struct kp_replay_thread){ record->pid, record->tid, record->comm };
	return 0;
}

/* ---- modules ---- */

static bool same_module(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_replay *r = ctx;
	const struct kp_replay_module *a = &r->modules[id], *b = key;

	return a->start == b->start && a->end == b->end && a->file_offset == b->file_offset &&
	       a->pid == b->pid && kp_raw_string_same(a->path, b->path) &&
	       kp_raw_string_same(a->build_id, b->build_id);
}

/* The number of a module: the same file at the same place has the same one in all processes. */
static int number_module(struct kp_replay *r, const struct kp_replay_module *m, uint32_t *ret,
			 struct kp_err *err)
{
	uint64_t hash = kp_hash_word(kp_hash_word(m->start, m->end), m->file_offset);
	int result;

	hash = kp_hash_word(hash, kp_hash_bytes(m->path.text, m->path.len));
	*ret = kp_index_find(&r->module_index, hash, same_module, r, m);
	if (*ret != KP_INDEX_NONE)
		return 0;
	result = kp_array_reserve(r->modules, &r->module_capacity, r->module_count + UINT64_C(2),
				  err);
	if (result < 0)
		return result;
	if (!r->module_count)
		r->modules[r->module_count++] = (struct kp_replay_module){ 0 };
	result = kp_index_add(&r->module_index, hash, r->module_count, err);
	if (result < 0)
		return result;
	*ret = r->module_count++;
	r->modules[*ret] = *m;
	return 0;
}

static int apply_module(struct kp_replay *r, const struct kp_raw_module *record, struct kp_err *err)
{
	struct kp_replay_module m = { .start = record->start,
				      .end = record->end,
				      .file_offset = record->file_offset,
				      .path = record->path,
				      .build_id = record->build_id };
	struct kp_replay_process *p = find_process(r, record->pid);
	struct kp_address_range range = { record->start, record->end, 0 };
	int result;

	if (record->start >= record->end)
		return 0; /* holds no address */
	/* What a program has compiled for itself is its own. */
	if (kp_replay_is_anon(&m))
		m.pid = record->pid;
	if (!p) {
		result = add_process(r, record->pid, &p, err);
		if (result < 0)
			return result;
	}
	result = number_module(r, &m, &range.module, err);
	if (result < 0)
		return result;
	return kp_address_space_map(&p->space, &range, err);
}

uint32_t kp_replay_module_at(const struct kp_replay *r, uint32_t pid, uint64_t address)
{
	const struct kp_replay_process *p = find_process(r, pid);

	return p ? kp_address_space_find(&p->space, address) : 0;
}

bool kp_replay_is_anon(const struct kp_replay_module *module)
{
	return kp_raw_string_same(module->path, kp_raw_string("//anon"));
}

/* ---- images ---- */

static int apply_image(struct kp_replay *r, const struct kp_raw_image *record, struct kp_err *err)
{
	int result;

	for (uint32_t i = 0; i < r->image_count; i++) {
		if (r->images[i].bytes.text == record->bytes.text)
			return 0; /* read for the second time */
	}
	result = kp_array_reserve(r->images, &r->image_capacity, r->image_count + UINT64_C(1), err);
	if (result == 0)
		r->images[r->image_count++] = *record;
	return result;
}

/*
 * Of two images with one path (the vdsos of a 64-bit and of a 32-bit process) the build id tells
 * which it is: its bytes stand in the image's note.
 */
const struct kp_raw_image *kp_replay_image(const struct kp_replay *r,
					   const struct kp_replay_module *module)
{
	struct kp_raw_string id = module->build_id;

	for (uint32_t i = 0; i < r->image_count; i++) {
		const struct kp_raw_image *image = &r->images[i];

		if (!kp_raw_string_same(image->path, module->path))
			continue;
		if (!id.len || memmem(image->bytes.text, image->bytes.len, id.text, id.len))
			return image;
	}
	return NULL;
}

/* ---- the whole ---- */

int kp_replay_apply(struct kp_replay *r, const struct kp_raw_record *record, struct kp_err *err)
{
	switch (record->type) {
	case KP_RAW_PROCESS:
		return apply_process(r, &record->process, err);
	case KP_RAW_THREAD:
		return apply_thread(r, &record->thread, err);
	case KP_RAW_MODULE:
		return apply_module(r, &record->module, err);
	case KP_RAW_IMAGE:
		return apply_image(r, &record->image, err);
	case KP_RAW_SESSION:
	case KP_RAW_CLOCK:
	case KP_RAW_TIME:
	case KP_RAW_SAMPLE:
	case KP_RAW_TALLY:
	case KP_RAW_SYMBOL:
	case KP_RAW_LOST:
	case KP_RAW_END:
		break;
	}
	return 0;
}

void kp_replay_rewind(struct kp_replay *r)
{
	for (uint32_t i = 0; i < r->process_count; i++)
		kp_address_space_deinit(&r->processes[i].space);
	r->process_count = 0;
	r->thread_count = 0;
	kp_index_clear(&r->process_index);
	kp_index_clear(&r->thread_index);
}

void kp_replay_deinit(struct kp_replay *r)
{
	kp_replay_rewind(r);
	kp_index_deinit(&r->module_index);
	kp_index_deinit(&r->process_index);
	kp_index_deinit(&r->thread_index);
	free(r->modules);
	free(r->images);
	free(r->processes);
	free(r->threads);
}
