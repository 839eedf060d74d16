/*
 * Clocks in the target: mail, the lease, and real timers. Runs on each CPU that has an image, the
 * foreign ones under qemu; never with Criterion, because that is not packaged for them. rig.h has
 * the set-up and the environment variables.
 */
#undef KP_TEST_CRITERION
#include "tests/support/test.h"

#include "rig.h"

#include "agent/syscall.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define CELLS 16
#define DEPTH 64
#define FRAMES 5

static int timer_period(int32_t timer_id, uint64_t *ret)
{
	struct {
		int64_t period_s, period_ns, left_s, left_ns;
	} spec = { 0 };
	long r = kp_syscall(__NR_timer_gettime, timer_id, kp_syscall_ptr(&spec), 0, 0);

	*ret = (uint64_t)spec.period_ns;
	return (int)r;
}

Test(agent, handler_arms_and_disarms_by_mail)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	struct kp_mail *armed, *wrong, *gone;
	struct rig rig;
	uint64_t period;

	rig_open(&rig, CELLS, DEPTH);
	armed = rig_post(&rig, KP_MAIL_ARM, rig_tid(), 0);
	wrong = rig_post(&rig, KP_MAIL_ARM, 1, 0);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(rig.head->mail_done, 2);
	cr_assert_eq(armed->result, 0);
	cr_assert_eq(timer_period(armed->timer_id, &period), 0);
	cr_assert_eq(period, rig.head->period_ns);
	if (!rig_skips("clock of a foreign thread")) /* qemu checks it when the timer is set */
		cr_assert_eq(wrong->result, -EINVAL);

	gone = rig_post(&rig, KP_MAIL_DISARM, 0, armed->timer_id);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(rig.head->mail_done, 3);
	cr_assert_eq(gone->result, 0);
	cr_assert_lt(timer_period(gone->timer_id, &period), 0);

	gone = rig_post(&rig, KP_MAIL_DISARM, 0, armed->timer_id);
	armed = rig_post(&rig, (enum kp_mail_op)99, 0, 0);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(gone->result, -EINVAL);
	cr_assert_eq(armed->result, -EINVAL);
}

Test(agent, handler_works_off_a_few_mails_at_a_time_and_never_waits)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	for (int i = 0; i < 11; i++)
		rig_post(&rig, KP_MAIL_DISARM, 0, -1);
	rig.head->mail[0].state = KP_MAIL_TAKEN; /* by a thread that takes its time */
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(rig.head->mail_done, 8);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(rig.head->mail_done, 10);
	cr_assert_eq(rig.head->mail[0].state, KP_MAIL_TAKEN);
}

Test(agent, forked_child_leaves_its_parents_mail_alone)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig_post_to(&rig, getppid(), KP_MAIL_DISARM, 0, -1);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(rig.head->mail_done, 0);
	cr_assert_eq(rig.head->mail[0].state, KP_MAIL_POSTED);
}

Test(agent, call_works_the_whole_mailbox_off)
{
	struct kp_mail *first, *last;
	struct rig rig;
	uint64_t period;

	rig_open(&rig, CELLS, DEPTH);
	first = rig_post(&rig, KP_MAIL_ARM, rig_tid(), 0);
	for (uint32_t i = 2; i < KP_MAIL_SLOTS; i++)
		rig_post(&rig, KP_MAIL_DISARM, 0, -1);
	last = rig_post(&rig, KP_MAIL_ARM, rig_tid(), 0);
	rig_call(&rig);
	while (!__atomic_load_n(&rig.head->call_done, __ATOMIC_ACQUIRE))
		sched_yield();
	cr_assert_eq(rig.head->mail_done, KP_MAIL_SLOTS);
	cr_assert_eq(first->result, 0);
	cr_assert_eq(last->result, 0);
	cr_assert_eq(timer_period(first->timer_id, &period), 0);
	cr_assert_eq(timer_period(last->timer_id, &period), 0);
}

Test(agent, timer_past_the_lease_deletes_itself)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	siginfo_t event = rig_event_info(5), timer;
	struct kp_mail *armed;
	struct rig rig;
	uint64_t period;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->period_ns = UINT64_C(1000000000000);
	armed = rig_post(&rig, KP_MAIL_ARM, rig_tid(), 0);
	armed->first_ns = rig.head->period_ns; /* a tick of its own would count as well */
	rig_signal(&rig, &queued, FRAMES);
	timer = rig_timer_info(armed->timer_id, 0);

	rig.head->lease = 1;
	rig_signal(&rig, &timer, FRAMES);
	rig_signal(&rig, &timer, FRAMES);
	cr_assert_eq(rig.head->self_disarmed, 0);
	cr_assert_not_null(rig_read(&rig));
	cr_assert_not_null(rig_read(&rig));

	rig_signal(&rig, &event, FRAMES);
	cr_assert_eq(rig.head->self_disarmed, 0);
	rig_signal(&rig, &timer, FRAMES);
	cr_assert_eq(rig.head->self_disarmed, 1);
	cr_assert_lt(timer_period(armed->timer_id, &period), 0);
	rig_signal(&rig, &timer, FRAMES);
	cr_assert_eq(rig.head->self_disarmed, 1);
	cr_assert_null(rig_read(&rig));
}

Test(agent, ticks_left_to_the_event_use_up_the_lease)
{
	siginfo_t timer = rig_timer_info(-1, 0);
	struct kp_regs regs = { .pc = 0x5000 };
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->timer_mode = KP_TIMER_SYSCALL;
	rig.head->lease = 2;
	for (int i = 0; i < 10; i++)
		rig_call_handler(&rig, &timer, &regs);
	cr_assert_eq(rig.head->user_ticks, 3);
}

/* ---- real clocks; qemu's user mode has no thread CPU timers that say which they are ---- */

static bool ring_has_20(void *arg)
{
	struct rig *rig = arg;

	return __atomic_load_n(&rig->ring->head, __ATOMIC_RELAXED) >= 20;
}

static bool user_ticks_are_5(void *arg)
{
	struct rig *rig = arg;

	return __atomic_load_n(&rig->head->user_ticks, __ATOMIC_RELAXED) >= 5;
}

static int32_t arm_myself(struct rig *rig)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	struct kp_mail *mail = rig_post(rig, KP_MAIL_ARM, rig_tid(), 0);

	rig_signal(rig, &queued, FRAMES);
	cr_assert_eq(mail->result, 0);
	return mail->timer_id;
}

/* Only the handler's view is certain: ring_has_20() is on the stack at times. */
Test(agent, armed_thread_is_sampled_where_it_burns)
{
	const struct kp_ring_record *record;
	int seen = 0, burning = 0;
	struct rig rig;

	if (rig_skips("armed thread is sampled"))
		return;
	rig_open(&rig, 64, DEPTH);
	arm_myself(&rig);
	rig_burn(FRAMES, ring_has_20, &rig);
	while ((record = rig_read(&rig))) {
		seen++;
		cr_assert_eq(record->source, KP_SOURCE_TIMER);
		cr_assert_eq(record->origin, rig_tid());
		if (!rig_in_burn(record->pc[0]))
			continue;
		burning++;
		cr_assert(rig_is_stack(record, rig_in_burn, FRAMES));
	}
	cr_assert_geq(seen, 20);
	cr_assert_geq(burning, 15);
	cr_assert_eq(rig.head->foreign, 1); /* the nudge */
}

struct burner {
	struct rig *rig;
	uint32_t tid; /* atomic; 0 until it runs */
};

static void *burn(void *arg)
{
	struct burner *burner = arg;

	__atomic_store_n(&burner->tid, rig_tid(), __ATOMIC_RELEASE);
	rig_burn(FRAMES, ring_has_20, burner->rig);
	return NULL;
}

Test(agent, one_thread_arms_another)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	const struct kp_ring_record *record;
	struct burner burner = { .tid = 0 };
	struct kp_mail *mail;
	pthread_t thread;
	struct rig rig;

	if (rig_skips("one thread arms another"))
		return;
	rig_open(&rig, 64, DEPTH);
	burner.rig = &rig;
	cr_assert_eq(pthread_create(&thread, NULL, burn, &burner), 0);
	while (!__atomic_load_n(&burner.tid, __ATOMIC_ACQUIRE))
		sched_yield();
	mail = rig_post(&rig, KP_MAIL_ARM, burner.tid, 0);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(mail->result, 0);
	pthread_join(thread, NULL);
	while ((record = rig_read(&rig)))
		cr_assert_eq(record->origin, burner.tid);
	cr_assert_geq(rig.reader.kept, 20);
}

Test(agent, real_timer_past_the_lease_stops)
{
	int32_t timer_id;
	struct rig rig;
	uint64_t period;

	if (rig_skips("real timer past the lease"))
		return;
	rig_open(&rig, 64, DEPTH);
	timer_id = arm_myself(&rig);
	rig.head->lease = 3;
	while (!__atomic_load_n(&rig.head->self_disarmed, __ATOMIC_RELAXED))
		;
	cr_assert_eq(rig.ring->head, 4);
	cr_assert_lt(timer_period(timer_id, &period), 0);
}

Test(agent, real_ticks_in_user_mode_are_left_to_the_event)
{
	const struct kp_ring_record *record;
	struct rig rig;

	if (rig_skips("real ticks in user mode"))
		return;
	rig_open(&rig, 64, DEPTH);
	arm_myself(&rig);
	rig.head->timer_mode = KP_TIMER_SYSCALL;
	rig_burn(FRAMES, user_ticks_are_5, &rig);
	while (!ring_has_20(&rig))
		syscall(__NR_getppid);
	while ((record = rig_read(&rig))) {
		const char *pc = (const char *)(uintptr_t)record->pc[0];
		uint8_t size = rig_arch()->syscall_size;

		cr_assert_arr_eq(pc - size, rig_arch()->syscall_bytes, size);
	}
}
