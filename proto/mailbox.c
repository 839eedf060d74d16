/*
 * Both halves of the mailbox: mailbox.h. No I/O, no waiting, no memory of its own. The agent's half
 * runs in the target's signal handler.
 */
#include "proto/mailbox.h"

/* ---- daemon ---- */

uint32_t kp_mailbox_post(struct kp_shm_head *head, const struct kp_mail *mail)
{
	for (uint32_t slot = 0; slot < KP_MAIL_SLOTS; slot++) {
		struct kp_mail *place = &head->mail[slot];

		/* Relaxed: only the daemon makes a slot empty, and only it fills one. */
		if (__atomic_load_n(&place->state, __ATOMIC_RELAXED) != KP_MAIL_EMPTY)
			continue;
		place->op = mail->op;
		__atomic_store_n(&place->pid, mail->pid, __ATOMIC_RELAXED);
		place->tid = mail->tid;
		place->timer_id = mail->timer_id;
		place->result = 0;
		place->first_ns = mail->first_ns;
		/* Release: the slot is filled in. Pairs with the acquire CAS in try_take(). */
		__atomic_store_n(&place->state, KP_MAIL_POSTED, __ATOMIC_RELEASE);
		/* Relaxed: a hint that there is something to look for. */
		__atomic_fetch_add(&head->mail_posted, 1, __ATOMIC_RELAXED);
		return slot;
	}
	return KP_MAILBOX_NONE;
}

int kp_mailbox_collect(struct kp_shm_head *head, uint32_t slot, struct kp_mail *ret)
{
	struct kp_mail *place = &head->mail[slot];

	/* Acquire: the results are filled in. Pairs with the release in kp_mailbox_done(). */
	if (__atomic_load_n(&place->state, __ATOMIC_ACQUIRE) != KP_MAIL_DONE)
		return 0;
	*ret = *place;
	/* Relaxed: nobody but the daemon looks into an empty slot. */
	__atomic_store_n(&place->state, KP_MAIL_EMPTY, __ATOMIC_RELAXED);
	return 1;
}

int kp_mailbox_retract(struct kp_shm_head *head, uint32_t slot)
{
	uint32_t posted = KP_MAIL_POSTED;

	/* Relaxed: whoever wins the CAS has the slot; nothing was written to it since the post. */
	if (!__atomic_compare_exchange_n(&head->mail[slot].state, &posted, KP_MAIL_EMPTY, 0,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	__atomic_fetch_sub(&head->mail_posted, 1, __ATOMIC_RELAXED);
	return 1;
}

/* ---- agent: runs in the target's signal handler ---- */

static int try_take(struct kp_mail *mail, uint32_t pid)
{
	uint32_t posted = KP_MAIL_POSTED;

	/* A look first: most slots are empty or another process's, and need no write. */
	if (__atomic_load_n(&mail->state, __ATOMIC_RELAXED) != KP_MAIL_POSTED ||
	    __atomic_load_n(&mail->pid, __ATOMIC_RELAXED) != pid)
		return 0;
	/* Acquire: pairs with the release in kp_mailbox_post(). */
	if (!__atomic_compare_exchange_n(&mail->state, &posted, KP_MAIL_TAKEN, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	if (mail->pid == pid)
		return 1;
	/*
	 * Retracted and posted anew for another process between the look and the CAS. Release, as
	 * the post itself was: who takes it now pairs with this store.
	 */
	__atomic_store_n(&mail->state, KP_MAIL_POSTED, __ATOMIC_RELEASE);
	return 0;
}

uint32_t kp_mailbox_take(struct kp_shm_head *head, uint32_t from, uint32_t pid)
{
	for (uint32_t slot = from; slot < KP_MAIL_SLOTS; slot++)
		if (try_take(&head->mail[slot], pid))
			return slot;
	return KP_MAILBOX_NONE;
}

void kp_mailbox_done(struct kp_shm_head *head, uint32_t slot)
{
	/* Release: pairs with the acquire in kp_mailbox_collect(). */
	__atomic_store_n(&head->mail[slot].state, KP_MAIL_DONE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&head->mail_done, 1, __ATOMIC_RELAXED);
}
