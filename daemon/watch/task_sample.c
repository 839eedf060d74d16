/*
 * Samples that the kernel takes of threads by itself: task_sample.h. Daemon, session loop.
 *
 * perf_event_open(2): a task-clock event with inherit, so that what a thread creates is sampled from
 * its first instruction on, an executed program too. The first sample comes after a whole period of
 * time on that CPU. A record is as sample_type says, its fields in the order of the man page.
 */
#include "daemon/watch/task_sample.h"

#include "daemon/linux/descriptor.h"

#include "common/unwind/walk.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int kp_task_sample_open(pid_t tid, int cpu, bool threads_only,
			const struct kp_task_sampling *sampling)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = sampling->period_ns,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
			       PERF_SAMPLE_STACK_USER,
		.sample_regs_user = kp_task_regs_mask(),
		.sample_stack_user = KP_TASK_STACK_BYTES,
		.exclude_kernel = !sampling->kernel,
		.exclude_hv = 1,
		.inherit = 1,
		.inherit_thread = threads_only,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = KP_TASK_SAMPLES_BYTES / 4,
	};

	return kp_descriptor_take(
		(int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC),
		KP_DESCRIPTOR_WATCH);
}

/* The words of a record behind its head. */
struct words {
	const uint8_t *at;
	size_t left;
};

static bool take(struct words *words, uint64_t *ret, size_t count)
{
	if (words->left < count)
		return false;
	memcpy(ret, words->at, count * sizeof(*ret));
	words->at += count * sizeof(*ret);
	words->left -= count;
	return true;
}

static bool take_regs(struct words *words, struct kp_ring_slice *ret)
{
	uint64_t abi, value[KP_TASK_SAMPLE_REGS_MAX];
	size_t count = (size_t)__builtin_popcountll(kp_task_regs_mask());

	if (!take(words, &abi, 1) || abi != PERF_SAMPLE_REGS_ABI_64 || !take(words, value, count))
		return false;
	kp_task_regs_take(value, count, ret);
	return ret->pc;
}

/* *ret_words: of the stack; *ret_cut: it went on. */
static bool take_stack(struct words *words, struct kp_ring_slice *ret, size_t *ret_words,
		       bool *ret_cut)
{
	uint64_t room, used;

	*ret_words = 0;
	*ret_cut = false;
	if (!take(words, &room, 1))
		return false;
	if (room == 0)
		return true;
	if (room > KP_TASK_STACK_BYTES || room % 8 || !take(words, ret->stack, room / 8) ||
	    !take(words, &used, 1) || used > room)
		return false;
	*ret_cut = used == room;
	/* Words are where the walk looks for them only if the stack pointer is one's address. */
	*ret_words = ret->sp % 8 ? 0 : used / 8;
	return true;
}

bool kp_task_sample_decode(const uint8_t *bytes, size_t size, union kp_task_sample *ret)
{
	struct words words = { bytes + sizeof(struct perf_event_header),
			       (size - sizeof(struct perf_event_header)) / 8 };
	struct kp_ring_record *record = &ret->record;
	struct kp_ring_slice *slice = (struct kp_ring_slice *)(void *)record->pc;
	uint64_t id, time_ns;
	size_t stack;
	bool cut;

	if (!take(&words, &id, 1) || !take(&words, &time_ns, 1) || !take_regs(&words, slice) ||
	    !take_stack(&words, slice, &stack, &cut))
		return false;
	*record = (struct kp_ring_record){ .origin = (uint32_t)(id >> 32),
					   .depth = (uint16_t)(KP_SLICE_HEAD_WORDS + stack),
					   .source = KP_SOURCE_EARLY,
					   .how = KP_HOW_SLICE | (cut ? KP_HOW_CUT : 0) };
	return true;
}
