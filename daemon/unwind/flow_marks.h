/*
 * What the files that read code without descriptions have in common: what is known of each byte of
 * code, of functions, and of what is still to be done. Theirs alone; flow.h is for others.
 */
#pragma once

#include "daemon/unwind/flow.h"
#include "daemon/unwind/x86_jump.h"
#include "daemon/unwind/x86_values.h"

#define KP_FLOW_NONE UINT32_MAX
#define KP_FLOW_FRAME_BITS 0xffffffu
#define KP_FLOW_OUTSIDE_MAX 1024

/* For each byte of code. */
struct kp_flow_mark {
	uint32_t frame : 24; /* index + 1 of what is true at the instruction here; 0: not reached */
	uint32_t length : 4; /* of the instruction; 0: not looked at, or not known */
	uint32_t weak : 1; /* reached only through calls that may not return */
	uint32_t
		never_returns : 1; /* the function here, of another module; kept from pass to pass */
	uint32_t
		part : 1; /* of a function begins here: nothing falls through to it; kept as well */
	uint32_t padded : 1; /* weak, and behind padding */
	uint32_t owner : 24; /* function that reached it first */
	/* What is kept from pass to pass: */
	uint32_t named : 1, pointed : 1, called : 1,
		started : 1; /* a function begins here, by ... */
	uint32_t candidate : 1; /* its address was taken */
	uint32_t no_function : 1; /* whatever says so */
	uint32_t no_return : 1; /* the call before does not return */
	uint32_t child : 1; /* a thread begins here */
};
_Static_assert(sizeof(struct kp_flow_mark) == 8, "for each byte of code");

struct kp_flow_range {
	uint64_t start, end;
	const uint8_t *code;
	uint32_t first; /* mark of start */
};

/* How calls of a function have gone in this pass. */
struct kp_flow_callee {
	uint64_t address;
	uint32_t calls;
	uint32_t proofs; /* calls that cannot have returned */
	bool never_returns; /* kept from pass to pass */
};

/* Of a function in this pass. */
struct kp_flow_callable {
	struct kp_flow_callee callee;
	uint32_t mark; /* where it begins */
	uint32_t waiting; /* list of calls of it, until it is known to return */
	uint32_t followers; /* list of functions that return if it does */
	bool returns;
	bool is_bad; /* it contradicts itself */
	bool jumps_about; /* to places that are not known */
	bool hands_over; /* to a function that is not known: as PLT entries do */
};

struct kp_flow_list {
	uint32_t next;
	uint32_t function; /* follower, or the one that calls */
	uint32_t frame;
	uint64_t address;
};

struct kp_flow_work {
	uint64_t address;
	struct kp_x86_values values;
};

struct kp_flow_works {
	struct kp_flow_work *work;
	size_t count, room;
};

struct kp_flow {
	const struct kp_image *image;
	struct kp_flow_range *range;
	uint32_t range_count, range_room;
	struct kp_flow_mark *mark;
	uint32_t code_bytes;
	struct kp_x86_frame *frame;
	uint32_t frame_count, frame_room, *slot, slot_count;
	struct kp_flow_callable *function;
	uint32_t function_count, function_room;
	struct kp_flow_list *list;
	uint32_t list_count, list_room;
	uint32_t returned; /* list of calls of what is known to return by now */
	struct kp_flow_works certain, weak; /* behind calls: taken when nothing else is left */
	struct kp_flow_callee
		outside[KP_FLOW_OUTSIDE_MAX]; /* outside of the ranges; a hash table */
	uint64_t entries_left; /* of tables of jumps that may still be read */
	bool again; /* another pass is needed */
	bool no_memory;
};

/* What is being followed. */
struct kp_flow_path {
	uint64_t address;
	uint32_t owner;
	bool weak;
	bool padded; /* weak, and behind padding */
	struct kp_x86_frame frame;
	struct kp_x86_values values;
};

/* ---- flow_marks.c ---- */

/* Room for one more of size bytes; false: there is none, and no_memory is set. */
bool kp_flow_make_room(struct kp_flow *flow, void **array, uint32_t count, uint32_t *room,
		       size_t size);

/* The first range that ends behind address; range_count if there is none. */
uint32_t kp_flow_first_range(const struct kp_flow *flow, uint64_t address);

/* NULL: outside of the ranges. */
const struct kp_flow_range *kp_flow_range_at(const struct kp_flow *flow, uint64_t address);
struct kp_flow_mark *kp_flow_mark_at(const struct kp_flow *flow, uint64_t address);

/* Whether a function is believed to begin there. */
bool kp_flow_is_function(const struct kp_flow_mark *mark);

/* A frame's index + 1; 0: out of memory, or of numbers. */
uint32_t kp_flow_intern(struct kp_flow *flow, const struct kp_x86_frame *frame);

/* Its index; KP_FLOW_NONE: out of memory, or of numbers. */
uint32_t kp_flow_new_function(struct kp_flow *flow, const struct kp_flow_mark *mark);
void kp_flow_add_to_list(struct kp_flow *flow, uint32_t *first, struct kp_flow_list entry);
void kp_flow_push(struct kp_flow *flow, struct kp_flow_works *works, uint64_t address,
		  const struct kp_x86_values *values);

/* It returns, and so do those that end in it; who waits behind a call of one is put to returned. */
void kp_flow_set_returns(struct kp_flow *flow, uint32_t function);

/* function returns if other does. */
void kp_flow_follow(struct kp_flow *flow, uint32_t function, uint32_t other);

/* ---- flow_calls.c ---- */

/* A callee outside of the ranges; NULL: too many. */
struct kp_flow_callee *kp_flow_find_outside(struct kp_flow *flow, uint64_t address);

/* Whether nothing but an address somewhere says that it is a function. */
bool kp_flow_is_guess(const struct kp_flow *flow, uint32_t function);

/* It contradicts itself: nothing of it is believed. */
void kp_flow_contradict(struct kp_flow *flow, uint32_t function);

/* The call in front of address does not return. */
void kp_flow_note_no_return(struct kp_flow *flow, const struct kp_flow_range *range,
			    uint64_t address);

/* When a pass is over: functions of other modules that do not return. */
void kp_flow_judge_callees(struct kp_flow *flow);

/* ---- flow_path.c ---- */

/* From the first instruction of a function. */
void kp_flow_start_function(struct kp_flow *flow, uint64_t address, struct kp_flow_mark *mark);

/* Behind the first call of returned. */
void kp_flow_go_on(struct kp_flow *flow);

/* Until the path ends, or nothing new comes of it. */
void kp_flow_follow_path(struct kp_flow *flow, const struct kp_flow_work *work);
