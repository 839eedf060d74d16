/*
 * Registers of the interrupted code on x86_64, from the kernel's signal frame
 * (Linux: arch/x86/include/uapi/asm/sigcontext.h).
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

	ret->pc = mc->rip;
	ret->sp = mc->rsp;
	ret->fp = mc->rbp;
	ret->ra = 0;
}

/* struct rt_sigframe (arch/x86/include/asm/sigframe.h): pretcode, then the ucontext. */
void kp_capture_return_through(void *ucontext, uint64_t restorer)
{
	((volatile uint64_t *)ucontext)[-1] = restorer;
}

const struct kp_arch *kp_capture_arch(void)
{
	return &kp_arch_x86_64;
}
