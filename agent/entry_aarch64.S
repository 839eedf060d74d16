/*
 * The start of the agent's image on aarch64: struct kp_agent_header of proto/shm.h, and
 * the signal handler's entry. There is no restorer: the kernel returns through its vdso.
 */
	.section .header, "ax"
	.globl	kp_agent_image
	.hidden	kp_agent_image
	.hidden	kp_agent_tick
	.hidden	kp_agent_call
kp_agent_image:
	.long	0x4741504b				/* magic: KP_AGENT_MAGIC */
	.long	2					/* version: KP_SHM_VERSION */
	.long	kp_agent_handler - kp_agent_image	/* handler_off */
	.long	0					/* restorer_off */
	.long	kp_agent_call - kp_agent_image		/* call_off */
	.long	0					/* pad */

	.text
	.balign	16
	.globl	kp_agent_handler
	.hidden	kp_agent_handler
	.type	kp_agent_handler, %function
/*
 * As the kernel calls it: x0 signal, x1 siginfo, x2 ucontext, x30 where to return to. A signal that
 * is not ours goes on to the handler that kp_agent_tick() returns, as if that had been called.
 */
kp_agent_handler:
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-48]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	bl	kp_agent_tick
	mov	x16, x0
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	cbz	x16, 1f
	br	x16
1:	ret
	.size	kp_agent_handler, . - kp_agent_handler

	.section .note.GNU-stack, "", %progbits
