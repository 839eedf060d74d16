/*
 * The mailbox in the shared mapping (proto/shm.h): the daemon asks, whoever is in the agent next does
 * it. Both halves are in mailbox.c. Slots change hands one by one; nobody ever waits.
 *
 *	EMPTY	--daemon, post-->	POSTED	--CAS, take-->	TAKEN	--agent, done-->  DONE
 *	DONE	--daemon, collect-->	EMPTY
 *	POSTED	--CAS, retract-->	EMPTY
 *
 * The agent's half runs in the target's signal handler: no libc, no TLS, no lock, bounded loops.
 */
#pragma once

#include "proto/shm.h"

#include <stdint.h>

#define KP_MAILBOX_NONE UINT32_MAX

/* ---- daemon; it trusts nothing that it reads back but as a number ---- */

/* Posts a mail (its state is set here). Returns its slot, KP_MAILBOX_NONE when all are in use. */
uint32_t kp_mailbox_post(struct kp_shm_head *head, const struct kp_mail *mail);

/* 1 when the mail in the slot is done: *ret has it with its results, the slot is empty. Else 0. */
int kp_mailbox_collect(struct kp_shm_head *head, uint32_t slot, struct kp_mail *ret);

/* 1 when a mail that nobody had begun was taken back. 0: somebody has begun, it will be done. */
int kp_mailbox_retract(struct kp_shm_head *head, uint32_t slot);

/* ---- agent ---- */

/* Whether there is mail at all, for anybody: cheap. */
static inline int kp_mailbox_has_mail(const struct kp_shm_head *head)
{
	return __atomic_load_n(&head->mail_posted, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&head->mail_done, __ATOMIC_RELAXED);
}

/*
 * Takes the first mail for the process pid in the slots from..KP_MAIL_SLOTS-1. Returns its slot,
 * whose plain fields are the caller's until kp_mailbox_done(); KP_MAILBOX_NONE if there is none.
 */
uint32_t kp_mailbox_take(struct kp_shm_head *head, uint32_t from, uint32_t pid);
void kp_mailbox_done(struct kp_shm_head *head, uint32_t slot);
