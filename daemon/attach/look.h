/*
 * What one look at a thread has shown: its registers and the top of its stack, copied while it stood
 * still, so that its stack can be walked when it runs on. Filled in by the onlooker (onlooker.h).
 */
#pragma once

#include "common/unwind/fp.h"
#include "daemon/attach/cpu.h"
#include "daemon/linux/proc.h"

#include <stdint.h>
#include <sys/types.h>

#define KP_LOOK_PAGE 4096u
#define KP_LOOK_TOP_PAGES 16u /* from the stack pointer up */
#define KP_LOOK_PAGES 24u /* the others are where the chain of frame pointers leads */

enum kp_look_result {
	KP_LOOK_SEEN = 0,
	KP_LOOK_GONE, /* the thread has ended */
	KP_LOOK_REFUSED, /* it may not be traced, or a debugger has it */
	KP_LOOK_LATE, /* it did not stop in time; it is let go as soon as it does */
};

struct kp_look {
	/* filled in by who asks */
	pid_t pid, tid;
	uint64_t token; /* comes back as it is */
	/* the answer; all but result only if that is KP_LOOK_SEEN */
	enum kp_look_result result;
	uint64_t stopped_ns; /* that it stood still */
	struct kp_proc_sched sched; /* while it stood still: exact */
	struct kp_cpu_regs regs;
	uint32_t page_count;
	uint64_t page_at[KP_LOOK_PAGES];
	uint64_t page[KP_LOOK_PAGES][KP_LOOK_PAGE / 8];
};

/* Reads the stopped thread's stack into look, whose regs are filled in. In the onlooker. */
void kp_look_copy_stack(struct kp_look *look);

/* What the walk of the stack starts from. */
void kp_look_regs(const struct kp_look *look, struct kp_regs *ret);

/*
 * Makes look a view of a thread's memory as it is, without a stop: kp_look_fetch_word() reads what is
 * asked for. For a thread that sleeps.
 */
void kp_look_begin(struct kp_look *look, pid_t pid, pid_t tid);
int kp_look_fetch_word(void *ctx, uint64_t addr, uint64_t *ret);

/* A word of what was copied: a kp_read_word_fn, ctx is the struct kp_look. */
int kp_look_word(void *ctx, uint64_t addr, uint64_t *ret);

/* A register as it was: a kp_leaf_register_fn, ctx is the struct kp_look. */
int kp_look_register(void *ctx, uint32_t dwarf_number, uint64_t *ret);
