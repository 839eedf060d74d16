/*
 * Registers of the interrupted code on x86_64, from the kernel's signal frame
 * (Linux: arch/x86/include/uapi/asm/sigcontext.h).
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

	ret->pc = mc->rip;
	ret->sp = mc->rsp;
	ret->fp = mc->rbp;
	ret->ra = 0;
	ret->base = mc->rbx;
}

int kp_capture_register(void *ucontext, uint32_t dwarf_number, uint64_t *ret)
{
	/* psABI 3.6.2: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip; where struct sigcontext has them. */
	static const uint8_t place[] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16 };
	const struct sigcontext *mc = &((const struct ucontext *)ucontext)->uc_mcontext;
	const __u64 *words = &mc->r8;

	_Static_assert(offsetof(struct sigcontext, rip) == 16 * 8, "as in the kernel's header");
	if (dwarf_number >= sizeof(place))
		return -1;
	*ret = words[place[dwarf_number]];
	return 0;
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
