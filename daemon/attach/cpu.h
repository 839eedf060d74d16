/*
 * Registers of a stopped thread on the CPU that this build runs on. One file a CPU, the same
 * functions in each: a diff of two is the porting guide.
 */
#pragma once

#include "common/unwind/fp.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct kp_cpu_regs {
	struct user_regs_struct user;
};

/* The table of this CPU. */
const struct kp_arch *kp_cpu_arch(void);

/* AUDIT_ARCH_... as seccomp filters see it. */
uint32_t kp_cpu_audit_arch(void);

/* ptrace register access; 0, or -1 with errno. The thread is stopped by the caller. */
int kp_cpu_get_regs(pid_t tid, struct kp_cpu_regs *ret);
int kp_cpu_set_regs(pid_t tid, const struct kp_cpu_regs *regs);

/* What a walk of the thread's stack starts from. */
void kp_cpu_walk_regs(const struct kp_cpu_regs *regs, struct kp_regs *ret);

/* The register of that DWARF number. 0, or -1 where there is none. */
int kp_cpu_dwarf_register(const struct kp_cpu_regs *regs, uint32_t number, uint64_t *ret);

uint64_t kp_cpu_pc(const struct kp_cpu_regs *regs);
void kp_cpu_set_pc(struct kp_cpu_regs *regs, uint64_t pc);

/* False for a thread that executes 32-bit code. */
bool kp_cpu_is_native(const struct kp_cpu_regs *regs);

/* Whether the thread was stopped on its way out of a system call, and not in user mode. */
bool kp_cpu_is_in_call(const struct kp_cpu_regs *regs);

/* Makes regs a system call on the instruction at insn; no restart of an earlier one is left. */
void kp_cpu_set_syscall(struct kp_cpu_regs *regs, uint64_t insn, long nr, const uint64_t args[6]);

/* What the system call returned: -4095..-1 is -errno. */
int64_t kp_cpu_result(const struct kp_cpu_regs *regs);

/* Makes regs enter a function without arguments on a fresh stack that ends at stack_top. */
void kp_cpu_set_call(struct kp_cpu_regs *regs, uint64_t entry, uint64_t stack_top);

/*
 * A stop without a signal makes some blocking calls return EINTR although no handler ran
 * (epoll_wait and its like are never restarted by the kernel). True if regs show such a return;
 * then they are changed so that the call is made again.
 */
bool kp_cpu_redo_interrupted(struct kp_cpu_regs *regs);

/* Whether a stop in that system call would need kp_cpu_redo_interrupted(). */
bool kp_cpu_is_redone(long nr);
