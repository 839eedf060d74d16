/* The mailbox: slots change hands one by one, each mail reaches its process and no other. */
#include "proto/mailbox.h"

#include "tests/support/test.h"

#define ME 100u
#define OTHER 200u

static struct kp_shm_head head;

static uint32_t post(uint32_t pid, uint32_t tid)
{
	struct kp_mail mail = { .op = KP_MAIL_ARM, .pid = pid, .tid = tid, .first_ns = 7 };

	return kp_mailbox_post(&head, &mail);
}

Test(mailbox, mail_goes_there_and_back)
{
	struct kp_mail mail = { 0 };
	uint32_t slot = post(ME, 5), taken;

	cr_assert(kp_mailbox_has_mail(&head));
	cr_assert_not(kp_mailbox_collect(&head, slot, &mail));
	taken = kp_mailbox_take(&head, 0, ME);
	cr_assert_eq(taken, slot);
	cr_assert_eq(head.mail[taken].tid, 5);
	cr_assert_eq(head.mail[taken].first_ns, 7);
	head.mail[taken].timer_id = 42;
	cr_assert_not(kp_mailbox_collect(&head, slot, &mail));
	kp_mailbox_done(&head, taken);
	cr_assert_not(kp_mailbox_has_mail(&head));
	cr_assert(kp_mailbox_collect(&head, slot, &mail));
	cr_assert_eq(mail.timer_id, 42);
	cr_assert_not(kp_mailbox_collect(&head, slot, &mail));
	cr_assert_eq(head.mail[slot].state, KP_MAIL_EMPTY);
}

Test(mailbox, is_taken_by_its_process_only_and_once)
{
	uint32_t mine;

	post(OTHER, 1);
	mine = post(ME, 2);
	post(OTHER, 3);
	cr_assert_eq(kp_mailbox_take(&head, 0, ME), mine);
	cr_assert_eq(kp_mailbox_take(&head, 0, ME), KP_MAILBOX_NONE);
	cr_assert_eq(kp_mailbox_take(&head, mine + 1, OTHER), mine + 1);
	cr_assert_eq(kp_mailbox_take(&head, 0, OTHER), 0);
}

Test(mailbox, is_full_when_all_slots_are_in_use)
{
	struct kp_mail mail;

	for (uint32_t i = 0; i < KP_MAIL_SLOTS; i++)
		cr_assert_eq(post(ME, i), i);
	cr_assert_eq(post(ME, 9), KP_MAILBOX_NONE);
	cr_assert_eq(kp_mailbox_take(&head, 3, ME), 3);
	cr_assert_eq(post(ME, 9), KP_MAILBOX_NONE);
	kp_mailbox_done(&head, 3);
	cr_assert_eq(post(ME, 9), KP_MAILBOX_NONE);
	cr_assert(kp_mailbox_collect(&head, 3, &mail));
	cr_assert_eq(post(ME, 9), 3);
}

Test(mailbox, is_taken_back_only_before_somebody_begins)
{
	struct kp_mail mail;
	uint32_t slot = post(ME, 1);

	cr_assert(kp_mailbox_retract(&head, slot));
	cr_assert_not(kp_mailbox_has_mail(&head));
	cr_assert_eq(kp_mailbox_take(&head, 0, ME), KP_MAILBOX_NONE);
	cr_assert_not(kp_mailbox_retract(&head, slot));

	slot = post(ME, 2);
	kp_mailbox_take(&head, 0, ME);
	cr_assert_not(kp_mailbox_retract(&head, slot));
	kp_mailbox_done(&head, slot);
	cr_assert_not(kp_mailbox_retract(&head, slot));
	cr_assert(kp_mailbox_collect(&head, slot, &mail));
}
