/*
 * The start of the agent's image on x86_64: struct kp_agent_header of proto/shm.h,
 * and the return from the signal handler. The bytes of the latter, 48 c7 c0 0f 00 00 00 0f 05, are
 * those that gdb and libgcc know a signal frame by; where there are symbols, gdb wants this name as
 * well. To see out of the handler it needs them: add-symbol-file kp-agent-x86_64.elf -o BASE, with
 * BASE from /proc/PID/maps.
 */
	.section .header, "ax"
	.globl	kp_agent_image
	.hidden	kp_agent_image
	.hidden	kp_agent_handler
	.hidden	kp_agent_call
kp_agent_image:
	.long	0x4741504b				/* magic: KP_AGENT_MAGIC */
	.long	1					/* version: KP_SHM_VERSION */
	.long	kp_agent_handler - kp_agent_image	/* handler_off */
	.long	__restore_rt - kp_agent_image		/* restorer_off */
	.long	kp_agent_call - kp_agent_image		/* call_off */
	.long	0					/* pad */

	.text
	.balign	16
	.type	__restore_rt, %function
__restore_rt:
	mov	$15, %rax	/* __NR_rt_sigreturn */
	syscall
	.size	__restore_rt, . - __restore_rt

	.section .note.GNU-stack, "", %progbits
