/*
 * What goes into a record of the ring: the interrupted stack, walked, or copied for the daemon to
 * walk it. Which of them, and by what, is the head's word.
 *
 * Runs in the target's signal handler, with all signals blocked; keep frames small.
 */
#include "agent/agent.h"
#include "agent/capture.h"
#include "agent/copy.h"
#include "agent/reader.h"
#include "common/unwind/walk.h"
#include "proto/tables.h"

#include <stdint.h>

/* Frames that a record takes: the head's wish, within what the ring was made for. */
static uint32_t depth_max(void)
{
	uint32_t max = kp_shm.depth < kp_shm_ring->words ? kp_shm.depth : kp_shm_ring->words;

	return max <= KP_DEPTH_MAX ? max : KP_DEPTH_MAX;
}

/* Bytes of stack that a record takes; 0: it has no room for a slice. */
static uint32_t slice_max(void)
{
	uint32_t room = kp_shm_ring->words;

	if (room <= KP_SLICE_HEAD_WORDS || room > KP_RING_WORDS_MAX)
		return 0;
	room = (room - KP_SLICE_HEAD_WORDS) * 8;
	return kp_shm.slice_bytes < room ? kp_shm.slice_bytes & ~7u : room;
}

/* Words from address at on, page by page, as far as there is memory. Returns their number. */
static uint32_t copy_stack(struct kp_reader *reader, uint64_t at, uint64_t *to, uint32_t max)
{
	uint32_t n = 0;

	while (n < max) {
		uint32_t in_page = (uint32_t)(KP_READER_PAGE - at % KP_READER_PAGE) / 8;
		uint32_t count = in_page < max - n ? in_page : max - n;

		if (!kp_reader_has(reader, at))
			break;
		kp_copy_words(to + n, at, count);
		n += count;
		at += (uint64_t)count * 8;
	}
	return n;
}

static void take_slice(struct kp_ring_record *record, void *ucontext, const struct kp_regs *regs,
		       struct kp_reader *reader, uint32_t max)
{
	struct kp_ring_slice *slice = (struct kp_ring_slice *)record->pc;
	uint32_t n;

	slice->pc = regs->pc;
	slice->sp = regs->sp;
	slice->fp = regs->fp;
	slice->ra = regs->ra;
	for (uint32_t i = 0; i < KP_SLICE_REGS; i++) {
		slice->reg[i] = 0;
		kp_capture_register(ucontext, i, &slice->reg[i]);
	}
	n = copy_stack(reader, regs->sp & ~UINT64_C(7), slice->stack, max / 8);
	record->depth = (uint16_t)(KP_SLICE_HEAD_WORDS + n);
	record->walk_end = KP_WALK_ON;
	record->how = KP_HOW_SLICE | (n == max / 8 ? KP_HOW_CUT : 0);
}

static void take_walk(struct kp_ring_record *record, void *ucontext, const struct kp_regs *regs,
		      struct kp_reader *reader)
{
	const struct kp_arch *arch = kp_capture_arch();
	struct kp_tables_lookup lookup;
	const struct kp_walk walk = {
		.arch = arch,
		.mode = (enum kp_unwind_mode)kp_shm.unwind,
		.read_word = kp_reader_word,
		.read_ctx = reader,
		.find_rule = kp_shm.tables_bytes ? kp_tables_find_rule : 0,
		.find_ctx = &lookup,
		.leaf_register = kp_capture_register,
		.leaf_ctx = ucontext,
	};
	enum kp_walk_end end;
	uint32_t depth, how;

	kp_tables_lookup_init(&lookup, kp_agent_tables(), kp_shm.tables_bytes, arch->elf_machine);
	end = kp_walk(&walk, *regs, record->pc, depth_max(), &depth, &how);
	record->depth = (uint16_t)depth;
	record->walk_end = (uint8_t)end;
	record->how = how;
}

void kp_agent_sample(const struct kp_tick *tick, void *ucontext, const struct kp_regs *regs,
		     struct kp_reader *reader)
{
	uint32_t slice = kp_shm.unwind == KP_UNWIND_SLICE ? slice_max() : 0;
	struct kp_ring_record *record;
	uint64_t ticket;

	record = kp_ring_claim(kp_shm_ring, &ticket);
	if (!record)
		return;
	record->origin = tick->origin;
	record->overrun = tick->overrun;
	record->source = (uint8_t)tick->source;
	if (slice)
		take_slice(record, ucontext, regs, reader, slice);
	else
		take_walk(record, ucontext, regs, reader);
	kp_ring_publish(kp_shm_ring, ticket);
}
