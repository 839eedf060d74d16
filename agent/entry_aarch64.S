/*
 * The start of the agent's image on aarch64: struct kp_agent_header of proto/shm.h. There is no
 * restorer: the kernel returns through its vdso.
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
	.long	0					/* restorer_off */
	.long	kp_agent_call - kp_agent_image		/* call_off */
	.long	0					/* pad */

	.section .note.GNU-stack, "", %progbits
