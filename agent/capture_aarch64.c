/*
 * Registers of the interrupted code on aarch64, from the kernel's signal frame
 * (Linux: arch/arm64/include/uapi/asm/sigcontext.h).
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

	ret->pc = mc->pc;
	ret->sp = mc->sp;
	ret->fp = mc->regs[29];
	ret->ra = mc->regs[30];
	ret->base = KP_REG_LOST;
}

int kp_capture_register(void *ucontext, uint32_t dwarf_number, uint64_t *ret)
{
	const struct sigcontext *mc = &((const struct ucontext *)ucontext)->uc_mcontext;

	if (dwarf_number > 31)
		return -1;
	*ret = dwarf_number == 31 ? mc->sp : mc->regs[dwarf_number];
	return 0;
}

void kp_capture_return_through(void *ucontext, uint64_t restorer)
{
	(void)ucontext;
	(void)restorer;
}

const struct kp_arch *kp_capture_arch(void)
{
	return &kp_arch_aarch64;
}
