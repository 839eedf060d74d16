/* From instruction to instruction: see flow_marks.h. Runs in the daemon. */
#include "daemon/unwind/flow_marks.h"

#include "daemon/unwind/bytes.h"

#include <string.h>

#define CHILD_TESTS_MAX 6

/*
 * At the first instruction of a function, from elsewhere than a call. A jump that does not look like
 * one function handing over to another speaks against the code that jumps: some that is written by
 * hand moves its return address about.
 */
static void arrive_at_function(struct kp_flow *flow, const struct kp_flow_path *path,
			       struct kp_flow_mark *mark, bool jump)
{
	const struct kp_x86_frame *frame = &path->frame;

	if (kp_x86_frame_is_left(frame) || frame->root != KP_X86_CALLED) {
		if (mark->frame)
			kp_flow_follow(flow, path->owner, mark->owner);
	} else if (jump) {
		kp_flow_contradict(flow, path->owner);
	}
	/* else: behind a call that does not return, and padding */
}

/* Two ways lead to one place. True: more is known, or less, than before. */
static bool join(struct kp_flow *flow, const struct kp_flow_path *path, struct kp_flow_mark *mark)
{
	struct kp_x86_frame both = flow->frame[mark->frame - 1];
	uint32_t met;

	if (memcmp(&both, &path->frame, sizeof(both)) == 0) {
		mark->weak &= path->weak;
		return false;
	}
	if (path->weak && !mark->weak)
		return false;
	if (!path->weak && mark->weak) {
		kp_flow_note_no_return(flow, kp_flow_range_at(flow, path->address), path->address);
		mark->no_return = true;
		flow->again = true;
		return false;
	}
	if (mark->owner != path->owner &&
	    (kp_flow_is_guess(flow, path->owner) || kp_flow_is_guess(flow, mark->owner))) {
		kp_flow_contradict(flow,
				   kp_flow_is_guess(flow, path->owner) ? path->owner : mark->owner);
		return false;
	}
	both = kp_x86_frame_meet(&both, &path->frame);
	met = kp_flow_intern(flow, &both);
	if (!met || met == mark->frame)
		return false;
	mark->frame = met & KP_FLOW_FRAME_BITS;
	return true;
}

/*
 * At path->address: jump: from elsewhere; else from the instruction before. What lies outside of
 * the ranges is out of sight, and believed to return. True: it is to be followed from here.
 */
static bool settle(struct kp_flow *flow, const struct kp_flow_path *path, bool jump)
{
	struct kp_flow_mark *mark = kp_flow_mark_at(flow, path->address);
	struct kp_x86_frame frame = path->frame;

	if (!mark) {
		if (jump)
			kp_flow_set_returns(flow, path->owner);
		return false;
	}
	if (!jump && path->weak &&
	    (mark->part || (kp_flow_is_function(mark) && !kp_x86_frame_is_left(&path->frame))))
		kp_flow_note_no_return(flow, kp_flow_range_at(flow, path->address), path->address);
	if (!jump && (mark->part || (path->weak && mark->no_return)))
		return false;
	if (kp_flow_is_function(mark)) {
		arrive_at_function(flow, path, mark, jump);
		return false;
	}
	if (mark->frame) {
		kp_flow_follow(flow, path->owner, mark->owner);
		return join(flow, path, mark);
	}
	if (mark->child)
		frame = kp_x86_frame_root(KP_X86_ROOT);
	mark->frame = kp_flow_intern(flow, &frame) & KP_FLOW_FRAME_BITS;
	mark->owner = path->owner & KP_FLOW_FRAME_BITS;
	mark->weak = path->weak;
	mark->padded = path->padded;
	return mark->frame;
}

static void arrive(struct kp_flow *flow, const struct kp_flow_path *path, bool jump)
{
	if (settle(flow, path, jump))
		kp_flow_push(flow, path->weak ? &flow->weak : &flow->certain, path->address,
			     &path->values);
}

/* A signal's restorer is not called: handlers return to it. */
static bool is_restorer(const struct kp_flow *flow, const struct kp_flow_range *range,
			uint64_t address)
{
	const struct kp_signal_frame *signal = &flow->image->arch->signal;

	return range->end - address >= signal->restorer_size &&
	       memcmp(range->code + (address - range->start), signal->restorer_bytes,
		      signal->restorer_size) == 0;
}

void kp_flow_start_function(struct kp_flow *flow, uint64_t address, struct kp_flow_mark *mark)
{
	const struct kp_flow_range *range = kp_flow_range_at(flow, address);
	struct kp_flow_path path = { .address = address,
				     .owner = kp_flow_new_function(flow, mark) };

	if (path.owner == KP_FLOW_NONE)
		return;
	path.frame = kp_x86_frame_called();
	if (mark->started)
		path.frame = kp_x86_frame_root(KP_X86_ROOT);
	else if (is_restorer(flow, range, address))
		path.frame = kp_x86_frame_root(KP_X86_RESTORER);
	mark->frame = kp_flow_intern(flow, &path.frame) & KP_FLOW_FRAME_BITS;
	mark->owner = path.owner & KP_FLOW_FRAME_BITS;
	if (mark->frame)
		kp_flow_push(flow, &flow->certain, address, &path.values);
}

/* A call of the code at target, which returns to path->address, if it does. */
static void call(struct kp_flow *flow, const struct kp_flow_path *path, uint64_t target)
{
	struct kp_flow_mark *mark = kp_flow_mark_at(flow, target);
	struct kp_x86_frame called = kp_x86_frame_called();
	struct kp_flow_callable *function;
	struct kp_flow_callee *outside;

	if (!mark) {
		outside = kp_flow_find_outside(flow, target);
		if (outside)
			outside->calls++;
		if (!outside || !outside->never_returns)
			arrive(flow, path, false);
		return;
	}
	if (!kp_flow_is_function(mark) && mark->frame &&
	    memcmp(&flow->frame[mark->frame - 1], &called, sizeof(called)) != 0)
		flow->again = true;
	mark->called = 1;
	if (!mark->frame)
		kp_flow_start_function(flow, target, mark);
	if (!mark->frame || mark->never_returns)
		return;
	function = &flow->function[mark->owner];
	function->callee.calls++;
	if (function->returns)
		arrive(flow, path, false);
	else
		kp_flow_add_to_list(
			flow, &function->waiting,
			(struct kp_flow_list){ .function = path->owner,
					       .frame = kp_flow_intern(flow, &path->frame),
					       .address = path->address });
}

/* Behind a call that is known to return. */
void kp_flow_go_on(struct kp_flow *flow)
{
	const struct kp_flow_list *call = &flow->list[flow->returned];
	struct kp_flow_path path = {
		.address = call->address,
		.owner = call->function,
		.weak = true,
	};

	flow->returned = call->next;
	if (!call->frame)
		return;
	path.frame = flow->frame[call->frame - 1];
	arrive(flow, &path, false);
}

static bool read_entry(const struct kp_flow *flow, const struct kp_x86_value *table, uint32_t n,
		       uint64_t *ret)
{
	unsigned size = table->is == KP_X86_POINTER ? 8 : 4;
	struct kp_image_part part;
	struct kp_bytes bytes;

	if (!kp_image_at(flow->image, table->address + n * (uint64_t)size, &part))
		return false;
	bytes = kp_bytes(part.data, part.size);
	*ret = size == 8 ? kp_bytes_u64(&bytes)
			 : table->address + (uint64_t)(int32_t)kp_bytes_u32(&bytes);
	return !bytes.cut;
}

/* False: some of it cannot be. */
static bool jump_by_table(struct kp_flow *flow, struct kp_flow_path *path,
			  const struct kp_x86_value *table)
{
	for (uint32_t n = 0; n <= table->bound; n++) {
		if (flow->entries_left == 0 || !read_entry(flow, table, n, &path->address) ||
		    !kp_flow_mark_at(flow, path->address))
			return false;
		flow->entries_left--;
		arrive(flow, path, true);
	}
	return true;
}

static void jump_indirectly(struct kp_flow *flow, struct kp_flow_path *path,
			    const struct kp_x86_insn *insn)
{
	struct kp_x86_value table = kp_x86_values_target(&path->values, insn);
	bool known = table.is != KP_X86_ANYTHING;

	path->values = (struct kp_x86_values){ 0 };
	if (known && jump_by_table(flow, path, &table))
		return;
	kp_flow_set_returns(flow, path->owner);
	if (known || path->frame.sp != kp_x86_frame_called().sp)
		flow->function[path->owner].jumps_about = true;
	else
		flow->function[path->owner].hands_over = true;
}

/* xor %ebp,%ebp */
static bool clears_fp(const uint8_t *code, size_t size)
{
	return (size >= 2 && code[0] == 0x31 && code[1] == 0xed) ||
	       (size >= 3 && code[0] == 0x48 && code[1] == 0x31 && code[2] == 0xed);
}

static void mark_child(struct kp_flow *flow, uint64_t address)
{
	const struct kp_flow_range *range = kp_flow_range_at(flow, address);
	struct kp_flow_mark *mark = kp_flow_mark_at(flow, address);

	if (range && mark &&
	    clears_fp(range->code + (address - range->start), range->end - address))
		mark->child = 1;
}

/*
 * A thread begins behind the system call that has made it, where the code clears the frame pointer,
 * which it has saved nowhere: it has no caller to return to (psABI 3.4.1: "mark the deepest stack
 * frame"). In between are nothing but tests of the call's result.
 */
static void find_child(struct kp_flow *flow, uint64_t address)
{
	for (int i = 0; i < CHILD_TESTS_MAX; i++) {
		const struct kp_flow_range *range = kp_flow_range_at(flow, address);
		struct kp_x86_insn insn;

		if (!range || kp_x86_decode(range->code + (address - range->start),
					    range->end - address, &insn) < 0)
			return;
		address += insn.length;
		if (kp_x86_jump_kind(&insn) == KP_X86_GOES_BRANCH)
			mark_child(flow, address + (uint64_t)insn.imm);
		else if (insn.map != KP_X86_ONE_BYTE ||
			 (insn.opcode != 0x85 && insn.opcode != 0x83))
			return; /* neither test nor cmp */
		mark_child(flow, address);
	}
}

/* To the target, if it is taken. */
static void branch(struct kp_flow *flow, struct kp_flow_path *path, const struct kp_x86_insn *insn,
		   uint64_t next)
{
	struct kp_flow_path taken = *path;
	uint8_t condition = insn->opcode & 0xf;
	bool by_flags = insn->opcode >= 0x70 && insn->opcode <= 0x8f;

	taken.address = next + (uint64_t)insn->imm;
	taken.weak = false;
	if (by_flags) {
		kp_x86_values_branch(&taken.values, condition, true);
		kp_x86_values_branch(&path->values, condition, false);
	}
	arrive(flow, &taken, true);
}

static void end_path(struct kp_flow *flow, struct kp_flow_path *path)
{
	if (path->frame.root == KP_X86_CALLED && !kp_x86_frame_is_left(&path->frame))
		kp_flow_contradict(flow, path->owner);
	else
		kp_flow_set_returns(flow, path->owner);
}

/* The call at path->address, which is next of. */
static void leave_for_call(struct kp_flow *flow, struct kp_flow_path *path,
			   const struct kp_x86_insn *insn, uint64_t next)
{
	path->address = next;
	path->weak = true;
	kp_x86_values_call(&path->values);
	if (insn->opcode == 0xe8)
		call(flow, path, next + (uint64_t)insn->imm);
	else
		arrive(flow, path, false);
}

/* Lets the instruction take effect. True: path->address is the next one's. */
static bool step(struct kp_flow *flow, struct kp_flow_path *path, const struct kp_x86_insn *insn)
{
	uint64_t next = path->address + insn->length;
	uint16_t writes = kp_x86_writes(insn);
	bool nop = kp_x86_is_nop(insn);

	if (!kp_x86_frame_step(&path->frame, insn, writes)) {
		kp_flow_contradict(flow, path->owner);
		return false;
	}
	kp_x86_values_step(&path->values, insn, next, writes);
	path->weak = path->weak && nop;
	path->padded = path->weak && (path->padded || insn->length > 1);
	switch (kp_x86_jump_kind(insn)) {
	case KP_X86_GOES_BRANCH:
		branch(flow, path, insn, next);
		break;
	case KP_X86_GOES_JUMP:
		path->address = next + (uint64_t)insn->imm;
		path->weak = false;
		arrive(flow, path, true);
		return false;
	case KP_X86_GOES_JUMP_ANYWHERE:
		jump_indirectly(flow, path, insn);
		return false;
	case KP_X86_GOES_CALL:
	case KP_X86_GOES_CALL_ANYWHERE:
		leave_for_call(flow, path, insn, next);
		return false;
	case KP_X86_GOES_RETURN:
		end_path(flow, path);
		return false;
	case KP_X86_GOES_END:
		return false;
	case KP_X86_GOES_ON:
		break;
	}
	path->address = next;
	return true;
}

/* What an instruction says beside what it does. */
static void note(struct kp_flow *flow, const struct kp_x86_insn *insn, uint64_t next)
{
	struct kp_flow_mark *mark;

	if (insn->map == KP_X86_0F && insn->opcode == 0x05)
		find_child(flow, next);
	if (insn->map != KP_X86_ONE_BYTE || insn->opcode != 0x8d || insn->base != KP_X86_RIP)
		return;
	mark = kp_flow_mark_at(flow, next + (uint64_t)insn->disp);
	if (mark)
		mark->candidate = 1;
}

void kp_flow_follow_path(struct kp_flow *flow, const struct kp_flow_work *work)
{
	struct kp_flow_path path = { .address = work->address, .values = work->values };
	struct kp_x86_insn insn;

	for (;;) {
		const struct kp_flow_range *range = kp_flow_range_at(flow, path.address);
		uint64_t at = path.address - range->start;
		struct kp_flow_mark *mark = &flow->mark[range->first + at];
		size_t size = range->end - path.address;

		path.frame = flow->frame[mark->frame - 1];
		path.owner = mark->owner;
		path.weak = mark->weak;
		path.padded = mark->padded;
		if (kp_x86_decode(range->code + at, size, &insn) < 0) {
			kp_flow_contradict(flow, path.owner);
			return;
		}
		mark->length = insn.length & 15u;
		if (kp_x86_is_nop(&insn))
			mark->padded = false;
		note(flow, &insn, path.address + insn.length);
		if (!step(flow, &path, &insn) || !settle(flow, &path, false))
			return;
	}
}
