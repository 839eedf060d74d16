/*
 * The work list over code without descriptions: see flow.h. Runs in the daemon.
 *
 * All is done in passes. A pass starts from all functions known so far, and ends when each
 * instruction that can be reached has its frame. What turns out to be wrong on the way (a call that
 * does not return, a symbol that is no function) is noted in the marks, and the next pass starts
 * anew with that. There are few of them.
 *
 * Calls are returned from only if what is called can return: a function of which no path leads to a
 * return or out of sight ends what calls it. All other calls are believed to return as long as
 * nothing speaks against it (the weak bit): where the frame behind a call is not the one with which
 * others jump there, the call does not return, since each instruction has but one frame.
 */
#include "daemon/unwind/flow_marks.h"

#include <stdlib.h>

#define CODE_MAX (UINT32_C(32) << 20)
#define PASSES_MAX 24 /* real code takes five; what takes more is not believed */
#define ROUNDS_MAX 32 /* of candidates in a pass */
#define POINTED_ALIGN 16 /* what compilers align functions to, and labels mostly not */

struct kp_flow *kp_flow_create(const struct kp_image *image)
{
	struct kp_flow *flow = calloc(1, sizeof(*flow));

	if (flow)
		flow->image = image;
	return flow;
}

void kp_flow_destroy(struct kp_flow *flow)
{
	if (!flow)
		return;
	free(flow->range);
	free(flow->mark);
	free(flow->frame);
	free(flow->slot);
	free(flow->function);
	free(flow->list);
	free(flow->certain.work);
	free(flow->weak.work);
	free(flow);
}

int kp_flow_add_range(struct kp_flow *flow, uint64_t start, uint64_t end)
{
	const struct kp_image_segment *segment = kp_image_code(flow->image, start);
	uint64_t size = end - start, there;

	if (start >= end || !segment || start - segment->start >= segment->data_size)
		return 0;
	there = segment->data_size - (start - segment->start);
	if (size > there)
		size = there;
	if (size > CODE_MAX - flow->code_bytes)
		return 0;
	if (!kp_flow_make_room(flow, (void **)&flow->range, flow->range_count, &flow->range_room,
			       sizeof(*flow->range)))
		return -KP_ENOMEM;
	flow->range[flow->range_count++] = (struct kp_flow_range){
		.start = start,
		.end = start + size,
		.code = segment->data + (start - segment->start),
		.first = flow->code_bytes,
	};
	flow->code_bytes += (uint32_t)size;
	return 0;
}

/* The marks are made when all ranges are there. */
static bool make_marks(struct kp_flow *flow)
{
	if (!flow->mark && flow->code_bytes)
		flow->mark = calloc(flow->code_bytes, sizeof(*flow->mark));
	return flow->mark != NULL;
}

bool kp_flow_has(const struct kp_flow *flow, uint64_t address)
{
	return kp_flow_range_at(flow, address) != NULL;
}

void kp_flow_add_function(struct kp_flow *flow, uint64_t address, enum kp_flow_function how)
{
	struct kp_flow_mark *mark;

	if (!make_marks(flow))
		return;
	mark = kp_flow_mark_at(flow, address);
	if (!mark)
		return;
	mark->named |= how == KP_FLOW_NAMED;
	mark->candidate |= how == KP_FLOW_POINTED;
	mark->started |= how == KP_FLOW_STARTED;
	mark->part |= how == KP_FLOW_PART;
}

void kp_flow_add_endless(struct kp_flow *flow, uint64_t address)
{
	struct kp_flow_mark *mark;
	struct kp_flow_callee *outside;

	if (!make_marks(flow))
		return;
	mark = kp_flow_mark_at(flow, address);
	outside = mark ? NULL : kp_flow_find_outside(flow, address);
	if (mark)
		mark->never_returns = true;
	else if (outside)
		outside->never_returns = true;
}

/* All that a pass has found out. */
static void forget(struct kp_flow *flow)
{
	for (uint32_t i = 0; i < flow->code_bytes; i++) {
		struct kp_flow_mark *mark = &flow->mark[i];

		mark->frame = 0;
		mark->length = 0;
		mark->weak = 0;
		mark->padded = 0;
	}
}

static void begin_pass(struct kp_flow *flow)
{
	flow->again = false;
	flow->function_count = 0;
	flow->list_count = 0;
	flow->returned = KP_FLOW_NONE;
	flow->certain.count = 0;
	flow->weak.count = 0;
	flow->entries_left = (uint64_t)flow->code_bytes + 4096;
	forget(flow);
	for (uint32_t i = 0; i < flow->range_count; i++) {
		const struct kp_flow_range *range = &flow->range[i];

		for (uint64_t at = range->start; at < range->end; at++) {
			struct kp_flow_mark *mark = &flow->mark[range->first + (at - range->start)];

			if (kp_flow_is_function(mark))
				kp_flow_start_function(flow, at, mark);
		}
	}
}

static void work_off(struct kp_flow *flow)
{
	while (!flow->no_memory) {
		struct kp_flow_works *works = flow->certain.count ? &flow->certain : &flow->weak;

		if (!flow->certain.count && flow->returned != KP_FLOW_NONE) {
			kp_flow_go_on(flow);
		} else if (works->count) {
			struct kp_flow_work work = works->work[--works->count];

			kp_flow_follow_path(flow, &work);
		} else {
			return;
		}
	}
}

/*
 * Addresses that were taken and that nothing leads to become functions: one in each stretch that is
 * not reached, the first, since it may reach the others. But not behind a function that jumps to
 * places that are not known: it may be one of these. True: there are new ones.
 */
static bool accept_candidates(struct kp_flow *flow)
{
	bool accepted = false;

	for (uint32_t i = 0; i < flow->range_count; i++) {
		const struct kp_flow_range *range = &flow->range[i];
		bool passed_over = false;

		for (uint64_t address = range->start; address < range->end; address++) {
			struct kp_flow_mark *mark =
				&flow->mark[range->first + (address - range->start)];

			if (mark->frame && kp_flow_is_function(mark))
				passed_over = flow->function[mark->owner].jumps_about;
			else if (mark->frame)
				passed_over =
					passed_over && flow->function[mark->owner].jumps_about;
			if (!mark->candidate || mark->frame || mark->no_function || passed_over ||
			    address % POINTED_ALIGN)
				continue;
			mark->pointed = 1;
			kp_flow_start_function(flow, address, mark);
			passed_over = true;
			accepted = true;
		}
	}
	return accepted;
}

/*
 * Padding behind a call: the call is the last of its function and does not return, or the compiler
 * has aligned the head of a loop. To that something has to jump.
 */
static void judge_padded(struct kp_flow *flow)
{
	for (uint32_t i = 0; i < flow->code_bytes; i++) {
		struct kp_flow_mark *mark = &flow->mark[i];

		if (!mark->padded || !mark->weak || !mark->frame || mark->no_return)
			continue;
		mark->no_return = true;
		flow->again = true;
	}
}

static void pass(struct kp_flow *flow)
{
	begin_pass(flow);
	work_off(flow);
	for (int i = 0; i < ROUNDS_MAX && !flow->no_memory; i++) {
		if (!accept_candidates(flow))
			break;
		work_off(flow);
	}
	kp_flow_judge_callees(flow);
	judge_padded(flow);
}

int kp_flow_run(struct kp_flow *flow)
{
	if (flow->code_bytes && !make_marks(flow))
		return -KP_ENOMEM;
	for (int i = 0; i < PASSES_MAX; i++) {
		pass(flow);
		if (flow->no_memory)
			return -KP_ENOMEM;
		if (!flow->again)
			return 0;
	}
	forget(flow);
	return 0;
}

static bool is_known(const struct kp_flow *flow, const struct kp_flow_mark *mark)
{
	return mark->frame && mark->length && !flow->function[mark->owner].is_bad;
}

bool kp_flow_frame(const struct kp_flow *flow, uint64_t address, struct kp_x86_frame *ret,
		   uint8_t *ret_length)
{
	const struct kp_flow_mark *mark = kp_flow_mark_at(flow, address);

	if (!mark || !is_known(flow, mark))
		return false;
	*ret = flow->frame[mark->frame - 1];
	*ret_length = mark->length;
	return true;
}

bool kp_flow_knows(const struct kp_flow *flow)
{
	for (uint32_t i = 0; i < flow->code_bytes; i++)
		if (is_known(flow, &flow->mark[i]))
			return true;
	return false;
}

/* Whether a call may end right before this byte of code. */
static bool may_follow_call(const struct kp_flow_range *range, uint64_t address)
{
	uint64_t at = address - range->start;
	struct kp_x86_insn insn;

	for (uint64_t i = 2; i <= KP_X86_LENGTH_MAX && i <= at; i++)
		if (kp_x86_decode(range->code + at - i, i, &insn) == 0 && insn.length == i &&
		    (kp_x86_jump_kind(&insn) == KP_X86_GOES_CALL ||
		     kp_x86_jump_kind(&insn) == KP_X86_GOES_CALL_ANYWHERE))
			return true;
	return false;
}

/* What is being written. */
struct writer {
	struct kp_rows *rows;
	bool in_gap; /* it is not written yet, so that nothing is written twice for one address */
	uint64_t gap; /* where it begins */
	int r;
};

static void put(struct writer *w, uint64_t address, enum kp_cfa_kind kind)
{
	const struct kp_table_rule rule = { .cfa = (uint8_t)kind };

	if (w->r == 0)
		w->r = kp_rows_put(w->rows, address, &rule);
}

static void begin_gap(struct writer *w, uint64_t address)
{
	if (!w->in_gap)
		w->gap = address;
	w->in_gap = true;
}

/*
 * At what is known. What is not known may end in a call right before, and for the walk a return
 * address with nothing before it is where a stack begins (walk.c): it must not look so. A restorer
 * is looked up there, since handlers return to its first byte.
 */
static void end_gap(struct writer *w, const struct kp_flow_range *range, uint64_t address,
		    enum kp_x86_root root)
{
	bool restorer = root == KP_X86_RESTORER;
	bool front = address > range->start && w->gap < address &&
		     (restorer || may_follow_call(range, address));

	if (w->gap < address - front)
		put(w, w->gap, KP_CFA_GAP);
	if (front)
		put(w, address - 1, restorer ? KP_CFA_SIGNAL : KP_CFA_INVALID);
	w->in_gap = false;
}

static void put_range(struct writer *w, const struct kp_flow *flow,
		      const struct kp_flow_range *range)
{
	for (uint64_t at = range->start; w->r == 0 && at < range->end;) {
		const struct kp_flow_mark *mark = &flow->mark[range->first + (at - range->start)];
		const struct kp_x86_frame *frame = NULL;
		struct kp_table_rule rule = { .cfa = KP_CFA_GAP };

		if (is_known(flow, mark)) {
			frame = &flow->frame[mark->frame - 1];
			rule = kp_x86_frame_rule(frame);
		}
		if (rule.cfa == KP_CFA_GAP) {
			begin_gap(w, at);
		} else {
			if (w->in_gap)
				end_gap(w, range, at, (enum kp_x86_root)frame->root);
			if (w->r == 0)
				w->r = kp_rows_put(w->rows, at, &rule);
		}
		at += is_known(flow, mark) ? mark->length : 1;
	}
	begin_gap(w, range->end);
}

int kp_flow_put(const struct kp_flow *flow, uint64_t start, uint64_t end, struct kp_rows *rows)
{
	struct writer w = { .rows = rows, .in_gap = true, .gap = start };

	for (uint32_t i = kp_flow_first_range(flow, start); i < flow->range_count; i++) {
		if (flow->range[i].start >= end)
			break;
		put_range(&w, flow, &flow->range[i]);
	}
	if (w.in_gap && w.gap < end)
		put(&w, w.gap, KP_CFA_GAP);
	return w.r;
}
