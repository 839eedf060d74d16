/* The walk of a copied stack: slice.h. Daemon, session loop. */
#include "daemon/drain/slice.h"

#include <stdbool.h>

struct view {
	const struct kp_ring_slice *slice;
	uint64_t start; /* address of its first word */
	uint64_t words;
	bool is_past_end; /* the last word that was not there lies above */
};

static int read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct view *view = ctx;
	uint64_t off = addr - view->start;

	if (addr % sizeof(uint64_t))
		return -1;
	if (off / sizeof(uint64_t) < view->words) {
		*ret = view->slice->stack[off / sizeof(uint64_t)];
		return 0;
	}
	view->is_past_end = addr > view->start;
	return -1;
}

/* A kp_leaf_register_fn. Numbers that the CPU does not have are 0 in the slice, and no rule's. */
static int leaf_register(void *ctx, uint32_t dwarf_number, uint64_t *ret)
{
	const struct view *view = ctx;

	if (dwarf_number >= KP_SLICE_REGS)
		return -1;
	*ret = view->slice->reg[dwarf_number];
	return 0;
}

static uint64_t base_register(const struct kp_arch *arch, const struct kp_ring_slice *slice)
{
	uint8_t number = arch->dwarf.base;

	return number < KP_SLICE_REGS ? slice->reg[number] : KP_REG_LOST;
}

void kp_slice_walk(const struct kp_slice_walk *how, const struct kp_ring_record *record,
		   struct kp_ring_record *ret)
{
	const struct kp_ring_slice *slice = (const struct kp_ring_slice *)(const void *)record->pc;
	const struct kp_regs regs = {
		.pc = slice->pc,
		.sp = slice->sp,
		.fp = slice->fp,
		.ra = slice->ra,
		.base = base_register(how->arch, slice),
	};
	struct view view = {
		.slice = slice,
		.start = slice->sp & how->arch->frame.data_mask & ~UINT64_C(7),
		.words = record->depth - KP_SLICE_HEAD_WORDS,
	};
	const struct kp_walk walk = {
		.arch = how->arch,
		.mode = KP_UNWIND_AUTO,
		.read_word = read_word,
		.read_ctx = &view,
		.find_rule = how->find_rule,
		.find_ctx = how->find_ctx,
		.leaf_register = leaf_register,
		.leaf_ctx = &view,
	};
	uint32_t depth, used;
	enum kp_walk_end end = kp_walk(&walk, regs, ret->pc, how->depth, &depth, &used);

	ret->origin = record->origin;
	ret->overrun = record->overrun;
	ret->depth = (uint16_t)depth;
	ret->source = record->source;
	ret->walk_end = (uint8_t)end;
	ret->how = used | KP_HOW_SLICE;
	if (end == KP_WALK_UNREADABLE && view.is_past_end)
		ret->how |= record->how & KP_HOW_CUT;
}
