/* Places, frames and functions of code that is read: see flow_marks.h. Runs in the daemon. */
#include "daemon/unwind/flow_marks.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX ((1u << 24) - 2)

/* Room for one more of size bytes; false: there is none. */
bool kp_flow_make_room(struct kp_flow *flow, void **array, uint32_t count, uint32_t *room,
		       size_t size)
{
	uint32_t grown_room = *room ? 2 * *room : 64;
	void *grown;

	if (count < *room)
		return true;
	grown = grown_room > *room ? reallocarray(*array, grown_room, size) : NULL;
	if (!grown) {
		flow->no_memory = true;
		return false;
	}
	*array = grown;
	*room = grown_room;
	return true;
}

/* The first range that ends behind address. */
uint32_t kp_flow_first_range(const struct kp_flow *flow, uint64_t address)
{
	uint32_t low = 0, high = flow->range_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (flow->range[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct kp_flow_range *kp_flow_range_at(const struct kp_flow *flow, uint64_t address)
{
	uint32_t n = kp_flow_first_range(flow, address);

	return n < flow->range_count && address >= flow->range[n].start ? &flow->range[n] : NULL;
}

struct kp_flow_mark *kp_flow_mark_at(const struct kp_flow *flow, uint64_t address)
{
	const struct kp_flow_range *range = kp_flow_range_at(flow, address);

	return range && flow->mark ? &flow->mark[range->first + (address - range->start)] : NULL;
}

bool kp_flow_is_function(const struct kp_flow_mark *mark)
{
	return mark->called || mark->started ||
	       ((mark->named || mark->pointed) && !mark->no_function);
}

static uint32_t hash(const struct kp_x86_frame *frame)
{
	uint64_t word[2], h = 0;

	_Static_assert(sizeof(*frame) == sizeof(word), "no gaps, all of it is compared");
	memcpy(word, frame, sizeof(word));
	for (int i = 0; i < 2; i++) {
		h = (h ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

static uint32_t *find_slot(const struct kp_flow *flow, const struct kp_x86_frame *frame)
{
	for (uint32_t at = hash(frame);; at++) {
		uint32_t *slot = &flow->slot[at % flow->slot_count];

		if (!*slot || memcmp(&flow->frame[*slot - 1], frame, sizeof(*frame)) == 0)
			return slot;
	}
}

static bool grow_slots(struct kp_flow *flow)
{
	uint32_t count = flow->slot_count ? 2 * flow->slot_count : 1024;
	uint32_t *grown = calloc(count, sizeof(*grown));

	if (!grown) {
		flow->no_memory = true;
		return false;
	}
	free(flow->slot);
	flow->slot = grown;
	flow->slot_count = count;
	for (uint32_t i = 0; i < flow->frame_count; i++)
		*find_slot(flow, &flow->frame[i]) = i + 1;
	return true;
}

/* Its index + 1; 0: out of memory, or of numbers. */
uint32_t kp_flow_intern(struct kp_flow *flow, const struct kp_x86_frame *frame)
{
	uint32_t *slot;

	if (2 * flow->frame_count >= flow->slot_count && !grow_slots(flow))
		return 0;
	slot = find_slot(flow, frame);
	if (!*slot) {
		if (flow->frame_count == FRAMES_MAX ||
		    !kp_flow_make_room(flow, (void **)&flow->frame, flow->frame_count,
				       &flow->frame_room, sizeof(*frame)))
			return 0;
		flow->frame[flow->frame_count++] = *frame;
		*slot = flow->frame_count;
	}
	return *slot;
}

uint32_t kp_flow_new_function(struct kp_flow *flow, const struct kp_flow_mark *mark)
{
	if (flow->function_count >= 1u << 24 ||
	    !kp_flow_make_room(flow, (void **)&flow->function, flow->function_count,
			       &flow->function_room, sizeof(*flow->function)))
		return KP_FLOW_NONE;
	flow->function[flow->function_count] =
		(struct kp_flow_callable){ .mark = (uint32_t)(mark - flow->mark),
					   .waiting = KP_FLOW_NONE,
					   .followers = KP_FLOW_NONE };
	return flow->function_count++;
}

void kp_flow_add_to_list(struct kp_flow *flow, uint32_t *first, struct kp_flow_list entry)
{
	if (!kp_flow_make_room(flow, (void **)&flow->list, flow->list_count, &flow->list_room,
			       sizeof(*flow->list)))
		return;
	entry.next = *first;
	flow->list[flow->list_count] = entry;
	*first = flow->list_count++;
}

void kp_flow_push(struct kp_flow *flow, struct kp_flow_works *works, uint64_t address,
		  const struct kp_x86_values *values)
{
	if (works->count == works->room) {
		size_t room = works->room ? 2 * works->room : 64;
		void *grown = reallocarray(works->work, room, sizeof(*works->work));

		if (!grown) {
			flow->no_memory = true;
			return;
		}
		works->work = grown;
		works->room = room;
	}
	works->work[works->count++] =
		(struct kp_flow_work){ .address = address, .values = *values };
}

/* The function returns, and so do those that end in it; who waits behind a call of one goes on. */
void kp_flow_set_returns(struct kp_flow *flow, uint32_t function)
{
	uint32_t stack = KP_FLOW_NONE, at;

	if (flow->function[function].returns)
		return;
	flow->function[function].returns = true;
	kp_flow_add_to_list(flow, &stack, (struct kp_flow_list){ .function = function });
	while (stack != KP_FLOW_NONE) {
		struct kp_flow_callable *one = &flow->function[flow->list[stack].function];

		stack = flow->list[stack].next;
		for (at = one->followers; at != KP_FLOW_NONE; at = flow->list[at].next) {
			uint32_t follower = flow->list[at].function;

			if (flow->function[follower].returns)
				continue;
			flow->function[follower].returns = true;
			kp_flow_add_to_list(flow, &stack,
					    (struct kp_flow_list){ .function = follower });
		}
		while ((at = one->waiting) != KP_FLOW_NONE) {
			one->waiting = flow->list[at].next;
			flow->list[at].next = flow->returned;
			flow->returned = at;
		}
	}
}

/* function returns if other does */
void kp_flow_follow(struct kp_flow *flow, uint32_t function, uint32_t other)
{
	if (function == other || flow->function[function].returns)
		return;
	if (flow->function[other].returns)
		kp_flow_set_returns(flow, function);
	else
		kp_flow_add_to_list(flow, &flow->function[other].followers,
				    (struct kp_flow_list){ .function = function });
}
