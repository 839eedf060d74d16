/* What calls and jumps say of functions: see flow_marks.h. Runs in the daemon. */
#include "daemon/unwind/flow_marks.h"

#include <string.h>

#define CALL_LENGTH 5 /* of a direct call */
#define PADDING_MAX 16
#define OUTSIDE_PROBES 16

/* A callee outside of the ranges; NULL: too many. */
struct kp_flow_callee *kp_flow_find_outside(struct kp_flow *flow, uint64_t address)
{
	uint32_t at = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	for (uint32_t i = 0; i < OUTSIDE_PROBES; i++) {
		struct kp_flow_callee *callee = &flow->outside[(at + i) % KP_FLOW_OUTSIDE_MAX];

		if (!callee->address)
			callee->address = address;
		if (callee->address == address)
			return callee;
	}
	return NULL;
}

/* Whether nothing but an address somewhere says that it is a function. */
bool kp_flow_is_guess(const struct kp_flow *flow, uint32_t function)
{
	const struct kp_flow_mark *mark = &flow->mark[flow->function[function].mark];

	return mark->pointed && !mark->named && !mark->called && !mark->started;
}

/* Of a function that contradicts itself, nothing is believed. */

void kp_flow_contradict(struct kp_flow *flow, uint32_t function)
{
	flow->function[function].is_bad = true;
	kp_flow_set_returns(flow, function);
	if (kp_flow_is_guess(flow, function)) {
		flow->mark[flow->function[function].mark].no_function = true;
		flow->again = true;
	}
}

/*
 * The call in front of address, and of padding there, does not return. If that is so of many calls
 * of another module's function, then no call of it returns.
 */
void kp_flow_note_no_return(struct kp_flow *flow, const struct kp_flow_range *range,
			    uint64_t address)
{
	uint64_t at = address - range->start;

	for (uint64_t i = CALL_LENGTH; i <= at && i < CALL_LENGTH + PADDING_MAX; i++) {
		const uint8_t *code = range->code + at - i;
		const struct kp_flow_mark *mark = &flow->mark[range->first + at - i], *target;
		struct kp_flow_callee *callee = NULL;
		int32_t distance;

		if (code[0] != 0xe8 || mark->length != CALL_LENGTH)
			continue;
		memcpy(&distance, code + 1, sizeof(distance));
		address += CALL_LENGTH - i + (uint64_t)(int64_t)distance;
		target = kp_flow_mark_at(flow, address);
		if (!target)
			callee = kp_flow_find_outside(flow, address);
		else if (target->frame)
			callee = &flow->function[target->owner].callee;
		if (callee)
			callee->proofs++;
		return;
	}
}

/* What is believed of all calls of a function, when a pass is over. */
static bool is_endless(const struct kp_flow_callee *callee)
{
	return callee->proofs && 2 * callee->proofs >= callee->calls;
}

void kp_flow_judge_callees(struct kp_flow *flow)
{
	for (uint32_t i = 0; i < KP_FLOW_OUTSIDE_MAX; i++) {
		struct kp_flow_callee *callee = &flow->outside[i];

		if (!callee->never_returns && is_endless(callee))
			flow->again = callee->never_returns = true;
		callee->calls = callee->proofs = 0;
	}
	for (uint32_t i = 0; i < flow->function_count; i++) {
		const struct kp_flow_callable *function = &flow->function[i];
		struct kp_flow_mark *mark = &flow->mark[function->mark];

		if (function->hands_over && !mark->never_returns && is_endless(&function->callee)) {
			mark->never_returns = true;
			flow->again = true;
		}
	}
}
