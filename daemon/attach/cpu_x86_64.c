/*
 * Registers of a stopped thread: x86-64. Runs in the attach helper. System call convention: psABI
 * A.2.1; restart by the kernel: arch/x86/kernel/signal.c, arch_do_signal_or_restart().
 */
#include "daemon/attach/cpu.h"

#include <errno.h>
#include <linux/audit.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <elf.h>

#define FLAG_TRAP 0x100ull
#define FLAG_DIRECTION 0x400ull
#define USER_CODE_64 0x33 /* __USER_CS */

const struct kp_arch *kp_cpu_arch(void)
{
	return &kp_arch_x86_64;
}

uint32_t kp_cpu_audit_arch(void)
{
	return AUDIT_ARCH_X86_64;
}

int kp_cpu_get_regs(pid_t tid, struct kp_cpu_regs *ret)
{
	struct iovec iov = { &ret->user, sizeof(ret->user) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) != 0)
		return -1;
	if (iov.iov_len != sizeof(ret->user)) {
		errno = ENOEXEC; /* a 32-bit task has a smaller set */
		return -1;
	}
	return 0;
}

int kp_cpu_set_regs(pid_t tid, const struct kp_cpu_regs *regs)
{
	struct kp_cpu_regs copy = *regs;
	struct iovec iov = { &copy.user, sizeof(copy.user) };

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) == 0 ? 0 : -1;
}

void kp_cpu_walk_regs(const struct kp_cpu_regs *regs, struct kp_regs *ret)
{
	*ret = (struct kp_regs){ .pc = regs->user.rip,
				 .sp = regs->user.rsp,
				 .fp = regs->user.rbp,
				 .base = regs->user.rbx };
}

/* The numbers: psABI, figure 3.36. */
int kp_cpu_dwarf_register(const struct kp_cpu_regs *regs, uint32_t number, uint64_t *ret)
{
	const struct user_regs_struct *u = &regs->user;
	const uint64_t all[] = { u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp,
				 u->r8,	 u->r9,	 u->r10, u->r11, u->r12, u->r13, u->r14, u->r15 };

	if (number >= sizeof(all) / sizeof(all[0]))
		return -1;
	*ret = all[number];
	return 0;
}

uint64_t kp_cpu_pc(const struct kp_cpu_regs *regs)
{
	return regs->user.rip;
}

void kp_cpu_set_pc(struct kp_cpu_regs *regs, uint64_t pc)
{
	regs->user.rip = pc;
}

bool kp_cpu_is_native(const struct kp_cpu_regs *regs)
{
	return regs->user.cs == USER_CODE_64;
}

/* orig_rax is -1 after interrupts and exceptions: arch/x86/entry/entry_64.S. */
bool kp_cpu_is_in_call(const struct kp_cpu_regs *regs)
{
	return (int64_t)regs->user.orig_rax >= 0;
}

void kp_cpu_set_syscall(struct kp_cpu_regs *regs, uint64_t insn, long nr, const uint64_t args[6])
{
	regs->user.rip = insn;
	regs->user.rax = (uint64_t)nr;
	regs->user.orig_rax = (uint64_t)-1;
	regs->user.rdi = args[0];
	regs->user.rsi = args[1];
	regs->user.rdx = args[2];
	regs->user.r10 = args[3];
	regs->user.r8 = args[4];
	regs->user.r9 = args[5];
	regs->user.eflags &= ~(FLAG_TRAP | FLAG_DIRECTION);
}

int64_t kp_cpu_result(const struct kp_cpu_regs *regs)
{
	return (int64_t)regs->user.rax;
}

void kp_cpu_set_call(struct kp_cpu_regs *regs, uint64_t entry, uint64_t stack_top)
{
	regs->user.rip = entry;
	regs->user.orig_rax = (uint64_t)-1;
	/* As after a call instruction: rsp + 8 is a multiple of 16 (psABI 3.2.2). */
	regs->user.rsp = (stack_top & ~UINT64_C(15)) - 8;
	regs->user.rbp = 0;
	regs->user.eflags &= ~(FLAG_TRAP | FLAG_DIRECTION);
}

bool kp_cpu_is_redone(long nr)
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_rt_sigtimedwait:
	case SYS_semtimedop:
	case SYS_semop:
	case SYS_io_getevents:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_io_uring_enter:
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
		return true;
	default:
		return false;
	}
}

bool kp_cpu_redo_interrupted(struct kp_cpu_regs *regs)
{
	if ((int64_t)regs->user.rax != -EINTR || !kp_cpu_is_redone((long)regs->user.orig_rax))
		return false;
	regs->user.rax = regs->user.orig_rax;
	regs->user.rip -= kp_arch_x86_64.syscall_size;
	return true;
}
