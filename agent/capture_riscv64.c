/*
 * Registers of the interrupted code on riscv64, from the kernel's signal frame
 * (Linux: arch/riscv/include/uapi/asm/{ptrace,sigcontext}.h).
 *
 * Runs in the target's signal handler.
 */
#include "agent/capture.h"

#include <linux/signal.h>
#include <asm/sigcontext.h>
#include <asm/ucontext.h>

void kp_capture_regs(const void *ucontext, struct kp_regs *ret)
{
	const struct sigcontext *mc = &((const struct ucontext *)ucontext)->uc_mcontext;

	ret->pc = mc->sc_regs.pc;
	ret->sp = mc->sc_regs.sp;
	ret->fp = mc->sc_regs.s0;
	ret->ra = mc->sc_regs.ra;
}

void kp_capture_return_through(void *ucontext, uint64_t restorer)
{
	(void)ucontext;
	(void)restorer;
}

const struct kp_arch *kp_capture_arch(void)
{
	return &kp_arch_riscv64;
}
