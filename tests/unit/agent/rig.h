/*
 * The agent's image in a mapping as the daemon would lay it out, but in this very process: the
 * test is target and daemon at once. The image's path is in $KP_AGENT_IMAGE.
 *
 * With $KP_EMULATED set (qemu's user mode, which does not carry every field of siginfo across) a
 * handler of libc passes the signal on to the image with the siginfo that was meant.
 */
#pragma once

#include "common/unwind/fp.h"
#include "proto/shm.h"
#include "proto/tables.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define RIG_SIGNAL SIGPROF

struct rig {
	char *code; /* as the target sees it: R-X, RW behind */
	struct kp_shm_head *head; /* as the daemon sees it */
	struct kp_ring *ring;
	struct kp_ring_reader reader;
	uint8_t *tables; /* the area for tables, as the daemon sees it; NULL: none */
	uint64_t tables_bytes;
};

/* Maps the image, formats the ring, installs the handler, switches on. Exits if it cannot. */
void rig_open(struct rig *rig, uint32_t cell_count, uint32_t depth);

/* The same with room for words in a record, and an area for tables. */
void rig_open_with(struct rig *rig, uint32_t cell_count, uint32_t words, uint64_t tables_bytes);

/* The handler of the image as the signal's action (again). */
void rig_install(const struct rig *rig);

/* As the kernel calls it, with all signals blocked. */
void rig_enter_handler(siginfo_t *info, void *ucontext);

/* True, after a line that says what was not tested, where qemu stands in for the CPU. */
bool rig_skips(const char *what);
bool rig_is_emulated(void);

const struct kp_agent_header *rig_header(const struct rig *rig);
const struct kp_arch *rig_arch(void);
uint32_t rig_tid(void);

/* What the kernel would say of the signal. */
siginfo_t rig_timer_info(int32_t timer_id, uint32_t overrun);
siginfo_t rig_event_info(int fd);
siginfo_t rig_plain_info(int code, int pid);

/*
 * Delivers the signal with that siginfo to this thread, out of a system call in rig_fire(), which
 * is called by frames of rig_recurse(), called by rig_outer().
 */
void rig_signal(struct rig *rig, const siginfo_t *info, uint32_t frames);

/* The handler called as a function, with registers made up. */
void rig_call_handler(struct rig *rig, const siginfo_t *info, const struct kp_regs *regs);

/* The same with all general registers, by their DWARF numbers, beside pc; there are RIG_REGISTERS. */
void rig_call_handler_with(struct rig *rig, const siginfo_t *info, uint64_t pc,
			   const uint64_t registers[32]);
extern const uint32_t RIG_REGISTERS;

/* The next record, or NULL. Valid until the next call. */
const struct kp_ring_record *rig_read(struct rig *rig);

/* Whether an address lies in the function at the end of the stack. */
bool rig_in_fire(uint64_t pc);
bool rig_in_burn(uint64_t pc);

/* Is the record's stack, from the leaf: in_last, rig_recurse() frames times, rig_outer(). */
bool rig_is_stack(const struct kp_ring_record *record, bool (*in_last)(uint64_t pc),
		  uint32_t frames);

/* The same stack, but burning CPU at its end until done() says so. */
void rig_burn(uint32_t frames, bool (*done)(void *arg), void *arg);

/* Posts a mail; returns its slot, to look at the result. */
struct kp_mail *rig_post(struct rig *rig, enum kp_mail_op op, uint32_t tid, int32_t timer_id);

/* The same for another process. */
struct kp_mail *rig_post_to(struct rig *rig, pid_t pid, enum kp_mail_op op, uint32_t tid,
			    int32_t timer_id);

/* Enters kp_agent_call() on a thread of its own, which stays there for ever. */
void rig_call(struct rig *rig);
