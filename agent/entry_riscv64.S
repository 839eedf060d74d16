/*
 * The start of the agent's image on riscv64: struct kp_agent_header of proto/shm.h, and
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
	.balign	4
	.globl	kp_agent_handler
	.hidden	kp_agent_handler
	.type	kp_agent_handler, %function
/*
 * As the kernel calls it: a0 signal, a1 siginfo, a2 ucontext, ra where to return to. A signal that
 * is not ours goes on to the handler that kp_agent_tick() returns, as if that had been called.
 */
kp_agent_handler:
	addi	sp, sp, -48
	sd	ra, 40(sp)
	sd	s0, 32(sp)
	addi	s0, sp, 48
	sd	a0, 24(sp)
	sd	a1, 16(sp)
	sd	a2, 8(sp)
	call	kp_agent_tick
	mv	t1, a0
	ld	a2, 8(sp)
	ld	a1, 16(sp)
	ld	a0, 24(sp)
	ld	s0, 32(sp)
	ld	ra, 40(sp)
	addi	sp, sp, 48
	beqz	t1, 1f
	jr	t1
1:	ret
	.size	kp_agent_handler, . - kp_agent_handler

	.section .note.GNU-stack, "", %progbits
