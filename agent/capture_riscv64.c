/*
 * Registers of the interrupted code on riscv64, from the kernel's signal frame
 * (Linux: arch/riscv/include/uapi/asm/{ptrace,sigcontext}.h).
 *
 * Runs in the target's signal handler.
 */
#include "agent/capture.h"

#include <stddef.h>

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
	ret->base = KP_REG_LOST;
}

int kp_capture_register(void *ucontext, uint32_t dwarf_number, uint64_t *ret)
{
	const struct sigcontext *mc = &((const struct ucontext *)ucontext)->uc_mcontext;
	/* struct user_regs_struct: pc in the place of x0, then x1 to x31. */
	const unsigned long *words = &mc->sc_regs.pc;

	_Static_assert(offsetof(struct user_regs_struct, t6) == 31 * 8,
		       "as in the kernel's header");
	if (dwarf_number > 31)
		return -1;
	*ret = dwarf_number ? words[dwarf_number] : 0;
	return 0;
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
