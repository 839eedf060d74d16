/*
 * Unit tests of the CPU timer clock's side of the mailbox. The agent is played by the test: it
 * works off mail when it is told to.
 */
#include "common/cleanup.h"
#include "daemon/clock/clock.h"
#include "proto/mailbox.h"
#include "tests/support/test.h"

#include <string.h>
#include <unistd.h>

#define PERIOD UINT64_C(1000000)
#define NS_PID 77 /* the process in its own pid namespace */

static struct kp_shm_head head;
static struct kp_clock *clock_;
static struct kp_err err;

static void begin(void)
{
	memset(&head, 0, sizeof(head));
	cr_assert_eq(kp_timer_clock_create(&head, getpid(), NS_PID, PERIOD, 1, &clock_, &err), 0);
}

static uint32_t waiting(void)
{
	return head.mail_posted - head.mail_done;
}

/* Works off up to n mails; timer ids are the tid + 1000. Returns how many. */
static uint32_t work_off(uint32_t n, int32_t result)
{
	uint32_t done = 0;

	for (uint32_t slot; done < n; done++) {
		struct kp_mail *mail;

		slot = kp_mailbox_take(&head, 0, NS_PID);
		if (slot == KP_MAILBOX_NONE)
			break;
		mail = &head.mail[slot];
		mail->result = result;
		if (mail->op == KP_MAIL_ARM)
			mail->timer_id = (int32_t)mail->tid + 1000;
		kp_mailbox_done(&head, slot);
	}
	return done;
}

static void arm(pid_t tid, pid_t ns_tid)
{
	cr_assert_eq(clock_->ops->arm(clock_, tid, ns_tid, &err), 0);
}

Test(timer, request_travels_and_its_result_comes_back)
{
	begin();
	arm(500, 5);
	cr_assert_eq(waiting(), 1);
	cr_assert_eq(head.mail[0].op, KP_MAIL_ARM);
	cr_assert_eq(head.mail[0].tid, 5);
	cr_assert_geq(head.mail[0].first_ns, 1);
	cr_assert_leq(head.mail[0].first_ns, PERIOD);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->armed, 0);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->armed, 1);
	cr_assert_eq(clock_->failed, 0);
	/* Records name the id in the target's namespace. */
	cr_assert_eq(clock_->ops->owner(clock_, 5), 500);
	cr_assert_eq(clock_->ops->owner(clock_, 500), 0);
	kp_clock_destroy(clock_);
}

Test(timer, failure_is_counted)
{
	begin();
	arm(1, 1);
	arm(2, 2);
	work_off(2, -11);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->failed, 2);
	cr_assert_eq(clock_->armed, 0);
	kp_clock_destroy(clock_);
}

Test(timer, timer_of_a_thread_that_ended_is_deleted)
{
	begin();
	arm(500, 5);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	clock_->ops->forget(clock_, 500);
	cr_assert_eq(waiting(), 1);
	cr_assert_eq(head.mail[0].op, KP_MAIL_DISARM);
	cr_assert_eq(head.mail[0].timer_id, 1005);
	cr_assert_eq(clock_->ops->owner(clock_, 5), 0);
	clock_->ops->forget(clock_, 500);
	cr_assert_eq(waiting(), 1);
	kp_clock_destroy(clock_);
}

Test(timer, more_threads_than_slots_are_all_armed)
{
	begin();
	for (pid_t tid = 1; tid <= 1000; tid++)
		arm(tid, tid);
	cr_assert_leq(waiting(), KP_MAIL_SLOTS);
	/* In odd portions, so that results and free slots do not come in step. */
	for (int turns = 0; clock_->armed < 1000; turns++) {
		cr_assert_lt(turns, 1000);
		work_off(7, 0);
		clock_->ops->serve(clock_);
		cr_assert_leq(waiting(), KP_MAIL_SLOTS);
	}
	cr_assert_eq(clock_->failed, 0);
	for (uint32_t tid = 1; tid <= 1000; tid++)
		cr_assert_eq(clock_->ops->owner(clock_, tid), (pid_t)tid);
	kp_clock_destroy(clock_);
}

Test(timer, results_survive_a_crowd_of_other_mail)
{
	begin();
	arm(500, 5);
	work_off(1, -11);
	/* Before the result is looked at, as much mail as is let through. */
	for (pid_t tid = 1; tid <= 300; tid++) {
		arm(1000 + tid, 1000 + tid);
		work_off(1, 0);
	}
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->failed, 1);
	kp_clock_destroy(clock_);
}

Test(timer, count_wraps_around)
{
	begin();
	head.mail_posted = head.mail_done = UINT32_MAX - 2;
	for (pid_t tid = 1; tid <= 10; tid++)
		arm(tid, tid);
	cr_assert_eq(work_off(20, 0), 10);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->armed, 10);
	kp_clock_destroy(clock_);
}

Test(timer, those_armed_with_the_injection_are_known)
{
	struct kp_mail mail[2] = { { .op = KP_MAIL_ARM, .tid = 7, .timer_id = 3 },
				   { .op = KP_MAIL_ARM, .tid = 8, .result = -12 } };
	pid_t tids[2] = { 700, 800 };

	begin();
	cr_assert_eq(kp_timer_clock_adopt(clock_, mail, tids, 2, &err), 0);
	cr_assert_eq(clock_->armed, 1);
	cr_assert_eq(clock_->failed, 1);
	cr_assert_eq(clock_->ops->owner(clock_, 7), 700);
	kp_clock_destroy(clock_);
}

Test(timer, thread_that_ended_before_it_was_armed_takes_its_request_back)
{
	begin();
	arm(500, 5);
	clock_->ops->forget(clock_, 500);
	cr_assert_eq(waiting(), 0);
	cr_assert_eq(head.mail[0].state, KP_MAIL_EMPTY);
	kp_clock_destroy(clock_);
}

Test(timer, thread_that_ended_while_it_was_armed_leaves_no_timer)
{
	uint32_t slot;

	begin();
	arm(500, 5);
	slot = kp_mailbox_take(&head, 0, NS_PID);
	clock_->ops->forget(clock_, 500);
	head.mail[slot].timer_id = 1005;
	kp_mailbox_done(&head, slot);
	clock_->ops->serve(clock_);
	cr_assert_eq(head.mail[0].op, KP_MAIL_DISARM);
	cr_assert_eq(head.mail[0].timer_id, 1005);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	cr_assert_eq(head.mail[0].state, KP_MAIL_EMPTY);
	cr_assert_eq(clock_->ops->owner(clock_, 5), 0);
	kp_clock_destroy(clock_);
}

Test(timer, request_of_a_thread_that_runs_unanswered_is_stuck)
{
	pid_t me = gettid(), asleep = 1; /* another process's: its CPU time is not to be had */

	begin();
	arm(asleep, 5);
	arm(me, 6);
	cr_assert_eq(kp_timer_clock_stuck(clock_, 60000), 0);
	cr_assert_not(kp_timer_clock_is_settled(clock_, me));
	while (kp_timer_clock_stuck(clock_, 1) == 0)
		; /* for a millisecond of CPU time */
	cr_assert_eq(kp_timer_clock_stuck(clock_, 1), 1);
	work_off(2, 0);
	clock_->ops->serve(clock_);
	cr_assert_eq(kp_timer_clock_stuck(clock_, 0), 0);
	cr_assert(kp_timer_clock_is_settled(clock_, me));
	cr_assert(kp_timer_clock_is_settled(clock_, 99));
	kp_clock_destroy(clock_);
}

Test(timer, timer_of_a_thread_that_is_released_is_deleted_in_a_stop_if_need_be)
{
	begin();
	arm(500, 5);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	clock_->ops->release(clock_, 500);
	cr_assert_eq(head.mail[0].op, KP_MAIL_DISARM);
	cr_assert_eq(clock_->ops->owner(clock_, 5), 0);
	usleep(2000);
	cr_assert_eq(kp_timer_clock_stuck(clock_, 1), 1);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	cr_assert_eq(kp_timer_clock_stuck(clock_, 1), 0);
	/* And it may come back. */
	arm(500, 5);
	work_off(1, 0);
	clock_->ops->serve(clock_);
	cr_assert_eq(clock_->ops->owner(clock_, 5), 500);
	kp_clock_destroy(clock_);
}

Test(timer, all_timers_of_released_threads_are_deleted_though_the_box_is_full)
{
	begin();
	for (pid_t tid = 1; tid <= 300; tid++)
		arm(tid, tid);
	for (int turns = 0; turns < 100 && clock_->armed < 300; turns++) {
		work_off(KP_MAIL_SLOTS, 0);
		clock_->ops->serve(clock_);
	}
	for (pid_t tid = 1; tid <= 300; tid++)
		clock_->ops->release(clock_, tid);
	for (uint32_t done = 0, turns = 0; done < 300; turns++) {
		cr_assert_lt(turns, 100);
		done += work_off(KP_MAIL_SLOTS, 0);
		clock_->ops->serve(clock_);
	}
	cr_assert_eq(waiting(), 0);
	kp_clock_destroy(clock_);
}
