/* Threads' run times and the weights of their samples: runtimes.h. Daemon, pure. */
#include "daemon/profile/runtimes.h"

#include "daemon/profile/array.h"
#include "proto/ring.h"

#include <stdlib.h>

/*
 * A thread that the clocks have seen much less of than the kernel is not explained by the little
 * that was seen: what is missing beyond this stays missing.
 */
#define GREATER_MAX 3
#define LESS_MAX 2 /* and a part of this, likewise */

struct key {
	uint32_t pid, tid;
};

static bool is_thread(const void *ctx, uint32_t id, const void *key)
{
	const struct kp_runtimes *r = ctx;
	const struct key *want = key;

	return r->thread[id].pid == want->pid && r->thread[id].tid == want->tid;
}

static struct kp_runtime *find(const struct kp_runtimes *r, uint32_t pid, uint32_t tid)
{
	struct key key = { pid, tid };
	uint64_t hash = kp_hash_word(kp_hash_word(0, pid), tid);
	uint32_t id = kp_index_find(&r->index, hash, is_thread, r, &key);

	return id == KP_INDEX_NONE ? NULL : &r->thread[id];
}

static int get(struct kp_runtimes *r, uint32_t pid, uint32_t tid, struct kp_runtime **ret,
	       struct kp_err *err)
{
	uint64_t hash = kp_hash_word(kp_hash_word(0, pid), tid);
	int result;

	*ret = find(r, pid, tid);
	if (*ret)
		return 0;
	result = kp_array_reserve(r->thread, &r->room, r->count + UINT64_C(1), err);
	if (result == 0)
		result = kp_index_add(&r->index, hash, r->count, err);
	if (result < 0)
		return result;
	*ret = &r->thread[r->count++];
	**ret = (struct kp_runtime){ .pid = pid, .tid = tid };
	return 0;
}

const struct kp_runtime *kp_runtimes_find(const struct kp_runtimes *r, uint32_t pid, uint32_t tid)
{
	return find(r, pid, tid);
}

static void add(uint64_t *sum, uint64_t ns)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*sum = UINT64_MAX;
}

static int apply_sample(struct kp_runtimes *r, const struct kp_raw_sample *sample,
			struct kp_err *err)
{
	struct kp_runtime *thread;
	int result;

	if (sample->source == KP_SOURCE_WAIT)
		return 0;
	result = get(r, sample->pid, sample->tid, &thread, err);
	if (result < 0)
		return result;
	thread->samples++;
	add(&thread->sampled_ns, sample->weight_ns);
	return 0;
}

static int apply_tally(struct kp_runtimes *r, const struct kp_raw_tally *tally, struct kp_err *err)
{
	struct kp_runtime *thread;
	int result = get(r, tally->pid, tally->tid, &thread, err);

	if (result < 0)
		return result;
	add(&thread->cpu_ns, tally->cpu_ns);
	add(&thread->blind_ns, tally->blind_ns);
	thread->flags |= tally->flags;
	return 0;
}

int kp_runtimes_apply(struct kp_runtimes *r, const struct kp_raw_record *record, struct kp_err *err)
{
	if (record->type == KP_RAW_SAMPLE)
		return apply_sample(r, &record->sample, err);
	if (record->type == KP_RAW_TALLY)
		return apply_tally(r, &record->tally, err);
	if (record->type == KP_RAW_CLOCK && record->clock.source == KP_SOURCE_EVENT)
		r->has_events = 1;
	return 0;
}

/*
 * With events: the run time. Their first tick comes a whole period after the start, and the kernel's
 * time for page faults is in neither clock, so the weights are short of it. With timers alone the
 * first tick is random and the weights are right on average: only what ran before there was a clock
 * is made up for, in the same proportion; but to no more than the run time, because when a clock began
 * is known less well. Of a thread whose end nobody was told of less than its run time is known.
 */
static unsigned __int128 run_time(const struct kp_runtimes *r, const struct kp_runtime *t)
{
	unsigned __int128 wanted;

	if (r->has_events)
		return t->cpu_ns;
	if (!(t->flags & (KP_TALLY_ENDED | KP_TALLY_PRESENT)))
		return (unsigned __int128)t->sampled_ns + t->blind_ns;
	if (t->blind_ns >= t->cpu_ns || t->sampled_ns >= t->cpu_ns)
		return t->sampled_ns;
	wanted = (unsigned __int128)t->sampled_ns * t->cpu_ns / (t->cpu_ns - t->blind_ns);
	return wanted < t->cpu_ns ? wanted : t->cpu_ns;
}

void kp_runtimes_finish(struct kp_runtimes *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct kp_runtime *t = &r->thread[i];
		unsigned __int128 wanted = run_time(r, t), sampled = t->sampled_ns;

		if (!t->cpu_ns)
			wanted = sampled;
		if (wanted > sampled * GREATER_MAX)
			wanted = sampled * GREATER_MAX;
		if (wanted < sampled / LESS_MAX)
			wanted = sampled / LESS_MAX;
		t->wanted_ns = wanted < INT64_MAX ? (uint64_t)wanted : t->sampled_ns;
	}
}

uint64_t kp_runtimes_weight(struct kp_runtimes *r, const struct kp_raw_sample *sample)
{
	struct kp_runtime *t = find(r, sample->pid, sample->tid);
	uint64_t all, part;

	if (sample->source == KP_SOURCE_WAIT || !t || !t->sampled_ns || t->sampled_ns == UINT64_MAX)
		return sample->weight_ns;
	t->in_ns += sample->weight_ns;
	all = (uint64_t)((unsigned __int128)t->in_ns * t->wanted_ns / t->sampled_ns);
	part = all - t->out_ns;
	t->out_ns = all;
	return part;
}

void kp_runtimes_deinit(struct kp_runtimes *r)
{
	kp_index_deinit(&r->index);
	free(r->thread);
}
