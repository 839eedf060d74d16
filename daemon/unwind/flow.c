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
#include "daemon/unwind/flow.h"

#include "daemon/unwind/bytes.h"
#include "daemon/unwind/x86_values.h"

#include <stdlib.h>
#include <string.h>

#define CODE_MAX (UINT32_C(16) << 20)
#define PASSES_MAX 24 /* real code takes five; what takes more is not believed */
#define ROUNDS_MAX 32 /* of candidates in a pass */
#define FRAMES_MAX ((1u << 24) - 2)
#define NONE UINT32_MAX
#define CHILD_TESTS_MAX 6
#define CALL_LENGTH 5 /* of a direct call */
#define PADDING_MAX 16
#define OUTSIDE_MAX 1024
#define OUTSIDE_PROBES 16
#define POINTED_ALIGN 16 /* what compilers align functions to, and labels mostly not */
#define FRAME_BITS 0xffffffu

/* For each byte of code. */
struct mark {
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
_Static_assert(sizeof(struct mark) == 8, "for each byte of code");

struct range {
	uint64_t start, end;
	const uint8_t *code;
	uint32_t first; /* mark of start */
};

/* How calls of a function have gone in this pass. */
struct callee {
	uint64_t address;
	uint32_t calls;
	uint32_t proofs; /* calls that cannot have returned */
	bool never_returns; /* kept from pass to pass */
};

/* Of a function in this pass. */
struct function {
	struct callee callee;
	uint32_t mark; /* where it begins */
	uint32_t waiting; /* list of calls of it, until it is known to return */
	uint32_t followers; /* list of functions that return if it does */
	bool returns;
	bool is_bad; /* it contradicts itself */
	bool jumps_about; /* to places that are not known */
	bool hands_over; /* to a function that is not known: as PLT entries do */
};

struct list {
	uint32_t next;
	uint32_t function; /* follower, or the one that calls */
	uint32_t frame;
	uint64_t address;
};

struct work {
	uint64_t address;
	struct kp_x86_values values;
};

struct works {
	struct work *work;
	size_t count, room;
};

struct kp_flow {
	const struct kp_image *image;
	struct range *range;
	uint32_t range_count, range_room;
	struct mark *mark;
	uint32_t code_bytes;
	struct kp_x86_frame *frame;
	uint32_t frame_count, frame_room, *slot, slot_count;
	struct function *function;
	uint32_t function_count, function_room;
	struct list *list;
	uint32_t list_count, list_room;
	uint32_t returned; /* list of calls of what is known to return by now */
	struct works certain, weak; /* behind calls: taken when nothing else is left */
	struct callee outside[OUTSIDE_MAX]; /* outside of the ranges; a hash table */
	uint64_t entries_left; /* of tables of jumps that may still be read */
	bool again; /* another pass is needed */
	bool no_memory;
};

/* What is being followed. */
struct path {
	uint64_t address;
	uint32_t owner;
	bool weak;
	bool padded; /* weak, and behind padding */
	struct kp_x86_frame frame;
	struct kp_x86_values values;
};

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

/* Room for one more of size bytes; false: there is none. */
static bool make_room(struct kp_flow *flow, void **array, uint32_t count, uint32_t *room,
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
	if (!make_room(flow, (void **)&flow->range, flow->range_count, &flow->range_room,
		       sizeof(*flow->range)))
		return -KP_ENOMEM;
	flow->range[flow->range_count++] = (struct range){
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

/* The first range that ends behind address. */
static uint32_t first_range(const struct kp_flow *flow, uint64_t address)
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

static const struct range *find_range(const struct kp_flow *flow, uint64_t address)
{
	uint32_t n = first_range(flow, address);

	return n < flow->range_count && address >= flow->range[n].start ? &flow->range[n] : NULL;
}

bool kp_flow_has(const struct kp_flow *flow, uint64_t address)
{
	return find_range(flow, address) != NULL;
}

static struct mark *find_mark(const struct kp_flow *flow, uint64_t address)
{
	const struct range *range = find_range(flow, address);

	return range && flow->mark ? &flow->mark[range->first + (address - range->start)] : NULL;
}

static bool is_function(const struct mark *mark)
{
	return mark->called || mark->started ||
	       ((mark->named || mark->pointed) && !mark->no_function);
}

void kp_flow_add_function(struct kp_flow *flow, uint64_t address, enum kp_flow_function how)
{
	struct mark *mark;

	if (!make_marks(flow))
		return;
	mark = find_mark(flow, address);
	if (!mark)
		return;
	mark->named |= how == KP_FLOW_NAMED;
	mark->candidate |= how == KP_FLOW_POINTED;
	mark->started |= how == KP_FLOW_STARTED;
	mark->part |= how == KP_FLOW_PART;
}

/* ---- frames, each different one once ---- */

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
static uint32_t intern(struct kp_flow *flow, const struct kp_x86_frame *frame)
{
	uint32_t *slot;

	if (2 * flow->frame_count >= flow->slot_count && !grow_slots(flow))
		return 0;
	slot = find_slot(flow, frame);
	if (!*slot) {
		if (flow->frame_count == FRAMES_MAX ||
		    !make_room(flow, (void **)&flow->frame, flow->frame_count, &flow->frame_room,
			       sizeof(*frame)))
			return 0;
		flow->frame[flow->frame_count++] = *frame;
		*slot = flow->frame_count;
	}
	return *slot;
}

/* ---- functions, and whether they return ---- */

static uint32_t add_function(struct kp_flow *flow, const struct mark *mark)
{
	if (flow->function_count >= 1u << 24 ||
	    !make_room(flow, (void **)&flow->function, flow->function_count, &flow->function_room,
		       sizeof(*flow->function)))
		return NONE;
	flow->function[flow->function_count] = (struct function){
		.mark = (uint32_t)(mark - flow->mark), .waiting = NONE, .followers = NONE
	};
	return flow->function_count++;
}

static void add_to_list(struct kp_flow *flow, uint32_t *first, struct list entry)
{
	if (!make_room(flow, (void **)&flow->list, flow->list_count, &flow->list_room,
		       sizeof(*flow->list)))
		return;
	entry.next = *first;
	flow->list[flow->list_count] = entry;
	*first = flow->list_count++;
}

static void push(struct kp_flow *flow, struct works *works, uint64_t address,
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
	works->work[works->count++] = (struct work){ .address = address, .values = *values };
}

/* The function returns, and so do those that end in it; who waits behind a call of one goes on. */
static void set_returns(struct kp_flow *flow, uint32_t function)
{
	uint32_t stack = NONE, at;

	if (flow->function[function].returns)
		return;
	flow->function[function].returns = true;
	add_to_list(flow, &stack, (struct list){ .function = function });
	while (stack != NONE) {
		struct function *one = &flow->function[flow->list[stack].function];

		stack = flow->list[stack].next;
		for (at = one->followers; at != NONE; at = flow->list[at].next) {
			uint32_t follower = flow->list[at].function;

			if (flow->function[follower].returns)
				continue;
			flow->function[follower].returns = true;
			add_to_list(flow, &stack, (struct list){ .function = follower });
		}
		while ((at = one->waiting) != NONE) {
			one->waiting = flow->list[at].next;
			flow->list[at].next = flow->returned;
			flow->returned = at;
		}
	}
}

/* function returns if other does */
static void follow(struct kp_flow *flow, uint32_t function, uint32_t other)
{
	if (function == other || flow->function[function].returns)
		return;
	if (flow->function[other].returns)
		set_returns(flow, function);
	else
		add_to_list(flow, &flow->function[other].followers,
			    (struct list){ .function = function });
}

/* ---- along the code ---- */

/* A callee outside of the ranges; NULL: too many. */
static struct callee *find_outside(struct kp_flow *flow, uint64_t address)
{
	uint32_t at = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	for (uint32_t i = 0; i < OUTSIDE_PROBES; i++) {
		struct callee *callee = &flow->outside[(at + i) % OUTSIDE_MAX];

		if (!callee->address)
			callee->address = address;
		if (callee->address == address)
			return callee;
	}
	return NULL;
}

/* Whether nothing but an address somewhere says that it is a function. */
static bool is_guess(const struct kp_flow *flow, uint32_t function)
{
	const struct mark *mark = &flow->mark[flow->function[function].mark];

	return mark->pointed && !mark->named && !mark->called && !mark->started;
}

/* Of a function that contradicts itself, nothing is believed. */

static void contradict(struct kp_flow *flow, uint32_t function)
{
	flow->function[function].is_bad = true;
	set_returns(flow, function);
	if (is_guess(flow, function)) {
		flow->mark[flow->function[function].mark].no_function = true;
		flow->again = true;
	}
}

/*
 * The call in front of address, and of padding there, does not return. If that is so of many calls
 * of another module's function, then no call of it returns.
 */
static void note_no_return(struct kp_flow *flow, const struct range *range, uint64_t address)
{
	uint64_t at = address - range->start;

	for (uint64_t i = CALL_LENGTH; i <= at && i < CALL_LENGTH + PADDING_MAX; i++) {
		const uint8_t *code = range->code + at - i;
		const struct mark *mark = &flow->mark[range->first + at - i], *target;
		struct callee *callee = NULL;
		int32_t distance;

		if (code[0] != 0xe8 || mark->length != CALL_LENGTH)
			continue;
		memcpy(&distance, code + 1, sizeof(distance));
		address += CALL_LENGTH - i + (uint64_t)(int64_t)distance;
		target = find_mark(flow, address);
		if (!target)
			callee = find_outside(flow, address);
		else if (target->frame)
			callee = &flow->function[target->owner].callee;
		if (callee)
			callee->proofs++;
		return;
	}
}

/* What is believed of all calls of a function, when a pass is over. */
static bool is_endless(const struct callee *callee)
{
	return callee->proofs && 2 * callee->proofs >= callee->calls;
}

static void judge_callees(struct kp_flow *flow)
{
	for (uint32_t i = 0; i < OUTSIDE_MAX; i++) {
		struct callee *callee = &flow->outside[i];

		if (!callee->never_returns && is_endless(callee))
			flow->again = callee->never_returns = true;
		callee->calls = callee->proofs = 0;
	}
	for (uint32_t i = 0; i < flow->function_count; i++) {
		const struct function *function = &flow->function[i];
		struct mark *mark = &flow->mark[function->mark];

		if (function->hands_over && !mark->never_returns && is_endless(&function->callee)) {
			mark->never_returns = true;
			flow->again = true;
		}
	}
}

/*
 * At the first instruction of a function, from elsewhere than a call. A jump that does not look like
 * one function handing over to another speaks against the code that jumps: some that is written by
 * hand moves its return address about.
 */
static void arrive_at_function(struct kp_flow *flow, const struct path *path, struct mark *mark,
			       bool jump)
{
	const struct kp_x86_frame *frame = &path->frame;

	if (kp_x86_frame_is_left(frame) || frame->root != KP_X86_CALLED) {
		if (mark->frame)
			follow(flow, path->owner, mark->owner);
	} else if (jump) {
		contradict(flow, path->owner);
	}
	/* else: behind a call that does not return, and padding */
}

/* Two ways lead to one place. True: more is known, or less, than before. */
static bool join(struct kp_flow *flow, const struct path *path, struct mark *mark)
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
		note_no_return(flow, find_range(flow, path->address), path->address);
		mark->no_return = true;
		flow->again = true;
		return false;
	}
	if (mark->owner != path->owner &&
	    (is_guess(flow, path->owner) || is_guess(flow, mark->owner))) {
		contradict(flow, is_guess(flow, path->owner) ? path->owner : mark->owner);
		return false;
	}
	both = kp_x86_frame_meet(&both, &path->frame);
	met = intern(flow, &both);
	if (!met || met == mark->frame)
		return false;
	mark->frame = met & FRAME_BITS;
	return true;
}

/*
 * At path->address: jump: from elsewhere; else from the instruction before. What lies outside of
 * the ranges is out of sight, and believed to return. True: it is to be followed from here.
 */
static bool settle(struct kp_flow *flow, const struct path *path, bool jump)
{
	struct mark *mark = find_mark(flow, path->address);
	struct kp_x86_frame frame = path->frame;

	if (!mark) {
		if (jump)
			set_returns(flow, path->owner);
		return false;
	}
	if (!jump && path->weak &&
	    (mark->part || (is_function(mark) && !kp_x86_frame_is_left(&path->frame))))
		note_no_return(flow, find_range(flow, path->address), path->address);
	if (!jump && (mark->part || (path->weak && mark->no_return)))
		return false;
	if (is_function(mark)) {
		arrive_at_function(flow, path, mark, jump);
		return false;
	}
	if (mark->frame) {
		follow(flow, path->owner, mark->owner);
		return join(flow, path, mark);
	}
	if (mark->child)
		frame = kp_x86_frame_root(KP_X86_ROOT);
	mark->frame = intern(flow, &frame) & FRAME_BITS;
	mark->owner = path->owner & FRAME_BITS;
	mark->weak = path->weak;
	mark->padded = path->padded;
	return mark->frame;
}

static void arrive(struct kp_flow *flow, const struct path *path, bool jump)
{
	if (settle(flow, path, jump))
		push(flow, path->weak ? &flow->weak : &flow->certain, path->address, &path->values);
}

/* A signal's restorer is not called: handlers return to it. */
static bool is_restorer(const struct kp_flow *flow, const struct range *range, uint64_t address)
{
	const struct kp_signal_frame *signal = &flow->image->arch->signal;

	return range->end - address >= signal->restorer_size &&
	       memcmp(range->code + (address - range->start), signal->restorer_bytes,
		      signal->restorer_size) == 0;
}

static void start_function(struct kp_flow *flow, uint64_t address, struct mark *mark)
{
	const struct range *range = find_range(flow, address);
	struct path path = { .address = address, .owner = add_function(flow, mark) };

	if (path.owner == NONE)
		return;
	path.frame = kp_x86_frame_called();
	if (mark->started)
		path.frame = kp_x86_frame_root(KP_X86_ROOT);
	else if (is_restorer(flow, range, address))
		path.frame = kp_x86_frame_root(KP_X86_RESTORER);
	mark->frame = intern(flow, &path.frame) & FRAME_BITS;
	mark->owner = path.owner & FRAME_BITS;
	if (mark->frame)
		push(flow, &flow->certain, address, &path.values);
}

/* A call of the code at target, which returns to path->address, if it does. */
static void call(struct kp_flow *flow, const struct path *path, uint64_t target)
{
	struct mark *mark = find_mark(flow, target);
	struct kp_x86_frame called = kp_x86_frame_called();
	struct function *function;
	struct callee *outside;

	if (!mark) {
		outside = find_outside(flow, target);
		if (outside)
			outside->calls++;
		if (!outside || !outside->never_returns)
			arrive(flow, path, false);
		return;
	}
	if (!is_function(mark) && mark->frame &&
	    memcmp(&flow->frame[mark->frame - 1], &called, sizeof(called)) != 0)
		flow->again = true;
	mark->called = 1;
	if (!mark->frame)
		start_function(flow, target, mark);
	if (!mark->frame || mark->never_returns)
		return;
	function = &flow->function[mark->owner];
	function->callee.calls++;
	if (function->returns)
		arrive(flow, path, false);
	else
		add_to_list(flow, &function->waiting,
			    (struct list){ .function = path->owner,
					   .frame = intern(flow, &path->frame),
					   .address = path->address });
}

/* Behind a call that is known to return. */
static void go_on(struct kp_flow *flow)
{
	const struct list *call = &flow->list[flow->returned];
	struct path path = {
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

/* ---- jumps by table ---- */

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
static bool jump_by_table(struct kp_flow *flow, struct path *path, const struct kp_x86_value *table)
{
	for (uint32_t n = 0; n <= table->bound; n++) {
		if (flow->entries_left == 0 || !read_entry(flow, table, n, &path->address) ||
		    !find_mark(flow, path->address))
			return false;
		flow->entries_left--;
		arrive(flow, path, true);
	}
	return true;
}

static void jump_indirectly(struct kp_flow *flow, struct path *path, const struct kp_x86_insn *insn)
{
	struct kp_x86_value table = kp_x86_values_target(&path->values, insn);
	bool known = table.is != KP_X86_ANYTHING;

	path->values = (struct kp_x86_values){ 0 };
	if (known && jump_by_table(flow, path, &table))
		return;
	set_returns(flow, path->owner);
	if (known || path->frame.sp != kp_x86_frame_called().sp)
		flow->function[path->owner].jumps_about = true;
	else
		flow->function[path->owner].hands_over = true;
}

/* ---- one instruction after the other ---- */

enum flow_kind {
	ON, /* to the next instruction */
	BRANCH, /* there, or to the target */
	JUMP,
	JUMP_ANYWHERE,
	CALL,
	CALL_ANYWHERE,
	RETURN,
	END, /* nowhere */
};

static enum flow_kind two_byte_kind(const struct kp_x86_insn *insn)
{
	switch (insn->opcode) {
	case 0x80 ... 0x8f:
		return BRANCH;
	case 0x07: /* sysret, ud2, sysexit, ud1, ud0 */
	case 0x0b:
	case 0x35:
	case 0xb9:
	case 0xff:
		return END;
	default:
		return ON;
	}
}

static enum flow_kind group_kind(const struct kp_x86_insn *insn)
{
	switch (insn->reg & 7) {
	case 2:
		return CALL_ANYWHERE;
	case 4:
		return JUMP_ANYWHERE;
	case 3: /* far */
	case 5:
	case 7:
		return END;
	default:
		return ON;
	}
}

static enum flow_kind kind_of(const struct kp_x86_insn *insn)
{
	if (insn->map == KP_X86_0F && !insn->vex)
		return two_byte_kind(insn);
	if (insn->map != KP_X86_ONE_BYTE)
		return ON;
	switch (insn->opcode) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		return BRANCH;
	case 0xc7: /* xbegin */
		return insn->mod == 3 && (insn->reg & 7) == 7 ? BRANCH : ON;
	case 0xe8:
		return CALL;
	case 0xe9:
	case 0xeb:
		return JUMP;
	case 0xc2:
	case 0xc3:
		return RETURN;
	case 0xca: /* far, int3, iret, hlt */
	case 0xcb:
	case 0xcc:
	case 0xcf:
	case 0xf4:
		return END;
	case 0xff:
		return group_kind(insn);
	default:
		return ON;
	}
}

/* xor %ebp,%ebp */
static bool clears_fp(const uint8_t *code, size_t size)
{
	return (size >= 2 && code[0] == 0x31 && code[1] == 0xed) ||
	       (size >= 3 && code[0] == 0x48 && code[1] == 0x31 && code[2] == 0xed);
}

static void mark_child(struct kp_flow *flow, uint64_t address)
{
	const struct range *range = find_range(flow, address);
	struct mark *mark = find_mark(flow, address);

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
		const struct range *range = find_range(flow, address);
		struct kp_x86_insn insn;

		if (!range || kp_x86_decode(range->code + (address - range->start),
					    range->end - address, &insn) < 0)
			return;
		address += insn.length;
		if (kind_of(&insn) == BRANCH)
			mark_child(flow, address + (uint64_t)insn.imm);
		else if (insn.map != KP_X86_ONE_BYTE ||
			 (insn.opcode != 0x85 && insn.opcode != 0x83))
			return; /* neither test nor cmp */
		mark_child(flow, address);
	}
}

static bool is_nop(const struct kp_x86_insn *insn)
{
	return (insn->map == KP_X86_ONE_BYTE && insn->opcode == 0x90 && insn->rm == KP_X86_RAX) ||
	       (insn->map == KP_X86_0F && insn->opcode == 0x1f);
}

/* To the target, if it is taken. */
static void branch(struct kp_flow *flow, struct path *path, const struct kp_x86_insn *insn,
		   uint64_t next)
{
	struct path taken = *path;
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

static void end_path(struct kp_flow *flow, struct path *path)
{
	if (path->frame.root == KP_X86_CALLED && !kp_x86_frame_is_left(&path->frame))
		contradict(flow, path->owner);
	else
		set_returns(flow, path->owner);
}

/* The call at path->address, which is next of. */
static void leave_for_call(struct kp_flow *flow, struct path *path, const struct kp_x86_insn *insn,
			   uint64_t next)
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
static bool step(struct kp_flow *flow, struct path *path, const struct kp_x86_insn *insn)
{
	uint64_t next = path->address + insn->length;
	uint16_t writes = kp_x86_writes(insn);
	bool nop = is_nop(insn);

	if (!kp_x86_frame_step(&path->frame, insn, writes)) {
		contradict(flow, path->owner);
		return false;
	}
	kp_x86_values_step(&path->values, insn, next, writes);
	path->weak = path->weak && nop;
	path->padded = path->weak && (path->padded || insn->length > 1);
	switch (kind_of(insn)) {
	case BRANCH:
		branch(flow, path, insn, next);
		break;
	case JUMP:
		path->address = next + (uint64_t)insn->imm;
		path->weak = false;
		arrive(flow, path, true);
		return false;
	case JUMP_ANYWHERE:
		jump_indirectly(flow, path, insn);
		return false;
	case CALL:
	case CALL_ANYWHERE:
		leave_for_call(flow, path, insn, next);
		return false;
	case RETURN:
		end_path(flow, path);
		return false;
	case END:
		return false;
	case ON:
		break;
	}
	path->address = next;
	return true;
}

/* What an instruction says beside what it does. */
static void note(struct kp_flow *flow, const struct kp_x86_insn *insn, uint64_t next)
{
	struct mark *mark;

	if (insn->map == KP_X86_0F && insn->opcode == 0x05)
		find_child(flow, next);
	if (insn->map != KP_X86_ONE_BYTE || insn->opcode != 0x8d || insn->base != KP_X86_RIP)
		return;
	mark = find_mark(flow, next + (uint64_t)insn->disp);
	if (mark)
		mark->candidate = 1;
}

static void follow_path(struct kp_flow *flow, const struct work *work)
{
	struct path path = { .address = work->address, .values = work->values };
	struct kp_x86_insn insn;

	for (;;) {
		const struct range *range = find_range(flow, path.address);
		uint64_t at = path.address - range->start;
		struct mark *mark = &flow->mark[range->first + at];
		size_t size = range->end - path.address;

		path.frame = flow->frame[mark->frame - 1];
		path.owner = mark->owner;
		path.weak = mark->weak;
		path.padded = mark->padded;
		if (kp_x86_decode(range->code + at, size, &insn) < 0) {
			contradict(flow, path.owner);
			return;
		}
		mark->length = insn.length & 15u;
		if (is_nop(&insn))
			mark->padded = false;
		note(flow, &insn, path.address + insn.length);
		if (!step(flow, &path, &insn) || !settle(flow, &path, false))
			return;
	}
}

/* ---- passes ---- */

/* All that a pass has found out. */
static void forget(struct kp_flow *flow)
{
	for (uint32_t i = 0; i < flow->code_bytes; i++) {
		struct mark *mark = &flow->mark[i];

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
	flow->returned = NONE;
	flow->certain.count = 0;
	flow->weak.count = 0;
	flow->entries_left = (uint64_t)flow->code_bytes + 4096;
	forget(flow);
	for (uint32_t i = 0; i < flow->range_count; i++) {
		const struct range *range = &flow->range[i];

		for (uint64_t at = range->start; at < range->end; at++) {
			struct mark *mark = &flow->mark[range->first + (at - range->start)];

			if (is_function(mark))
				start_function(flow, at, mark);
		}
	}
}

static void work_off(struct kp_flow *flow)
{
	while (!flow->no_memory) {
		struct works *works = flow->certain.count ? &flow->certain : &flow->weak;

		if (!flow->certain.count && flow->returned != NONE) {
			go_on(flow);
		} else if (works->count) {
			struct work work = works->work[--works->count];

			follow_path(flow, &work);
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
		const struct range *range = &flow->range[i];
		bool passed_over = false;

		for (uint64_t address = range->start; address < range->end; address++) {
			struct mark *mark = &flow->mark[range->first + (address - range->start)];

			if (mark->frame && is_function(mark))
				passed_over = flow->function[mark->owner].jumps_about;
			else if (mark->frame)
				passed_over =
					passed_over && flow->function[mark->owner].jumps_about;
			if (!mark->candidate || mark->frame || mark->no_function || passed_over ||
			    address % POINTED_ALIGN)
				continue;
			mark->pointed = 1;
			start_function(flow, address, mark);
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
		struct mark *mark = &flow->mark[i];

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
	judge_callees(flow);
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

/* ---- what has come of it ---- */

static bool is_known(const struct kp_flow *flow, const struct mark *mark)
{
	return mark->frame && mark->length && !flow->function[mark->owner].is_bad;
}

bool kp_flow_frame(const struct kp_flow *flow, uint64_t address, struct kp_x86_frame *ret,
		   uint8_t *ret_length)
{
	const struct mark *mark = find_mark(flow, address);

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
static bool may_follow_call(const struct range *range, uint64_t address)
{
	uint64_t at = address - range->start;
	struct kp_x86_insn insn;

	for (uint64_t i = 2; i <= KP_X86_LENGTH_MAX && i <= at; i++)
		if (kp_x86_decode(range->code + at - i, i, &insn) == 0 && insn.length == i &&
		    (kind_of(&insn) == CALL || kind_of(&insn) == CALL_ANYWHERE))
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
static void end_gap(struct writer *w, const struct range *range, uint64_t address,
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

static void put_range(struct writer *w, const struct kp_flow *flow, const struct range *range)
{
	for (uint64_t at = range->start; w->r == 0 && at < range->end;) {
		const struct mark *mark = &flow->mark[range->first + (at - range->start)];
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

	for (uint32_t i = first_range(flow, start); i < flow->range_count; i++) {
		if (flow->range[i].start >= end)
			break;
		put_range(&w, flow, &flow->range[i]);
	}
	if (w.in_gap && w.gap < end)
		put(&w, w.gap, KP_CFA_GAP);
	return w.r;
}
