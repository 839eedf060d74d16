/*
 * The start of the agent's image on x86_64: struct kp_agent_header of proto/shm.h,
 * the signal handler's entry, and the return from it. The bytes of the latter, 48 c7 c0 0f 00 00 00 0f 05, are
 * those that gdb and libgcc know a signal frame by; where there are symbols, gdb wants this name as
 * well. To see out of the handler it needs them: add-symbol-file kp-agent-x86_64.elf -o BASE, with
 * BASE from /proc/PID/maps.
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
	.long	__restore_rt - kp_agent_image		/* restorer_off */
	.long	kp_agent_call - kp_agent_image		/* call_off */
	.long	0					/* pad */

	.text
	.balign	16
	.globl	kp_agent_handler
	.hidden	kp_agent_handler
	.type	kp_agent_handler, %function
/*
 * As the kernel calls it: rdi signal, rsi siginfo, rdx ucontext, (rsp) where to return to. A signal
 * that is not ours goes on to the handler that kp_agent_tick() returns, as if that had been called.
 */
kp_agent_handler:
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	push	%rdi
	push	%rsi
	push	%rdx
	sub	$8, %rsp
	call	kp_agent_tick
	add	$8, %rsp
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbp
	test	%rax, %rax
	jz	1f
	jmp	*%rax
1:	ret
	.size	kp_agent_handler, . - kp_agent_handler

	.balign	16
	.type	__restore_rt, %function
__restore_rt:
	mov	$15, %rax	/* __NR_rt_sigreturn */
	syscall
	.size	__restore_rt, . - __restore_rt

	.section .note.GNU-stack, "", %progbits
