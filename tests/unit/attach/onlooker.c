/*
 * Unit tests of the onlooker: children of the test are looked at. Needs the permission to trace
 * them, which a child's parent has nearly everywhere; where it has not, the tests see refusals only.
 */
#include "daemon/attach/onlooker.h"

#include "common/cleanup.h"
#include "daemon/linux/children.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "proto/ring.h"
#include "tests/support/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define SECOND UINT64_C(1000000000)

static struct kp_onlooker *onlooker;
static struct kp_err err;

/* What a child tells. */
static volatile struct {
	uint64_t rounds, interrupted;
} * said;

static void begin(void)
{
	cr_assert_eq(kp_onlooker_create(&onlooker, &err), 0);
	said = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq((uintptr_t)said, (uintptr_t)MAP_FAILED);
}

static pid_t child(void (*work)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work();
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool is_in_state(pid_t pid, char state)
{
	uint64_t end = kp_now_ns() + 10 * SECOND;

	while (kp_proc_state(pid, pid) != state && kp_now_ns() < end)
		usleep(1000);
	return kp_proc_state(pid, pid) == state;
}

static struct kp_look *next(void)
{
	struct pollfd fd = { .fd = kp_onlooker_fd(onlooker), .events = POLLIN };

	poll(&fd, 1, 10000);
	return kp_onlooker_next(onlooker);
}

static struct kp_look *look_at(pid_t pid)
{
	struct kp_look *look;

	cr_assert(kp_onlooker_ask(onlooker, pid, pid, 7));
	look = next();
	cr_assert_not_null(look);
	cr_assert_eq(look->token, 7);
	cr_assert_eq(look->tid, pid);
	return look;
}

/* Whether this test may trace at all; if not it can show no more. */
static bool may_look(pid_t pid)
{
	return look_at(pid)->result != KP_LOOK_REFUSED;
}

__attribute__((noinline)) static void spin_on(volatile uint64_t *n)
{
	for (;;)
		(*n)++;
}

static void spin(void)
{
	spin_on(&said->rounds);
}

Test(onlooker, sees_where_a_thread_runs)
{
	uint64_t pc[KP_DEPTH_MAX];
	struct kp_look *look;
	struct kp_regs regs;
	uint32_t depth;
	pid_t pid;

	begin();
	pid = child(spin);
	while (!said->rounds)
		usleep(1000);
	if (may_look(pid)) {
		look = look_at(pid);
		cr_assert_eq(look->result, KP_LOOK_SEEN);
		kp_look_regs(look, &regs);
		cr_assert_geq(regs.pc, (uint64_t)(uintptr_t)spin_on);
		cr_assert_lt(regs.pc, (uint64_t)(uintptr_t)spin_on + 256);
		cr_assert_gt(look->stopped_ns, 0);
		cr_assert_geq(look->page_count, 1);
		cr_assert_eq(look->page_at[0], regs.sp & ~UINT64_C(4095));
		kp_fp_walk(&kp_cpu_arch()->frame, regs, kp_look_word, look, pc, KP_DEPTH_MAX,
			   &depth);
		cr_assert_geq(depth, 1);
		cr_assert_eq(pc[0], regs.pc);
	}
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}

#ifdef __x86_64__
static uint64_t *frame, *other_stack; /* each alone in its mapping */

/* On the other stack, with a frame pointer that leads back: as Go's runtime does. */
static void spin_on_another_stack(void)
{
	__asm__ volatile("mov %0, %%rsp\n\t"
			 "mov %1, %%rbp\n"
			 "1:\tincq (%2)\n\t"
			 "jmp 1b"
			 :
			 : "a"(other_stack + 256), "c"(frame), "d"(&said->rounds)
			 : "memory");
}

Test(onlooker, copies_the_frames_of_a_stack_that_was_left)
{
	const int how = PROT_READ | PROT_WRITE, where = MAP_PRIVATE | MAP_ANONYMOUS;
	struct kp_look *look;
	uint64_t word;
	pid_t pid;

	begin();
	frame = mmap(NULL, 4096, how, where, -1, 0);
	other_stack = mmap(NULL, 1 << 22, how, where, -1, 0);
	cr_assert(frame != MAP_FAILED && other_stack != MAP_FAILED);
	frame[1] = 0x401234; /* its own frame pointer is 0 */
	pid = child(spin_on_another_stack);
	while (!said->rounds)
		usleep(1000);
	if (may_look(pid)) {
		look = look_at(pid);
		cr_assert_eq(look->result, KP_LOOK_SEEN);
		cr_assert_eq(kp_look_word(look, (uint64_t)(uintptr_t)(frame + 1), &word), 0);
		cr_assert_eq(word, 0x401234);
	}
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}
#endif

static void wait_in_epoll(void)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	for (;;) {
		int r = epoll_wait(fd, &event, 1, 20);

		said->interrupted += r != 0;
		said->rounds++;
	}
}

Test(onlooker, wakes_no_call_with_an_error)
{
	pid_t pid;

	begin();
	pid = child(wait_in_epoll);
	cr_assert(is_in_state(pid, 'S'));
	for (int i = 0; i < 300; i++) {
		look_at(pid);
		usleep(500 + (unsigned)i % 7 * 300);
	}
	usleep(100000);
	cr_assert_eq(said->interrupted, 0);
	cr_assert_gt(said->rounds, 3);
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}

Test(onlooker, leaves_a_stopped_process_stopped)
{
	pid_t pid;

	begin();
	pid = child(spin);
	while (!said->rounds)
		usleep(1000);
	kill(pid, SIGSTOP);
	cr_assert(is_in_state(pid, 'T'));
	for (int i = 0; i < 20; i++)
		look_at(pid);
	cr_assert(is_in_state(pid, 'T'));
	kill(pid, SIGCONT);
	cr_assert(is_in_state(pid, 'R'));
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}

Test(onlooker, keeps_off_a_thread_that_has_a_tracer)
{
	pid_t pid;

	begin();
	pid = child(spin);
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0) {
		cr_assert_eq(look_at(pid)->result, KP_LOOK_REFUSED);
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, 0, 0);
		cr_assert_eq(look_at(pid)->result, KP_LOOK_SEEN);
	}
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}

Test(onlooker, says_when_a_thread_is_gone)
{
	pid_t pid;

	begin();
	pid = child(spin);
	end_child(pid);
	cr_assert_eq(look_at(pid)->result, KP_LOOK_GONE);
	kp_onlooker_destroy(onlooker);
}

Test(onlooker, looks_at_several_at_once)
{
	pid_t pid[KP_ONLOOKER_LOOKS];
	uint64_t seen = 0;

	begin();
	for (uint32_t i = 0; i < KP_ONLOOKER_LOOKS; i++) {
		pid[i] = child(wait_in_epoll);
		cr_assert(is_in_state(pid[i], 'S'));
		cr_assert(kp_onlooker_ask(onlooker, pid[i], pid[i], i));
	}
	cr_assert_not(kp_onlooker_ask(onlooker, pid[0], pid[0], 0));
	for (uint32_t i = 0; i < KP_ONLOOKER_LOOKS; i++) {
		struct kp_look *look = next();

		cr_assert_not_null(look);
		cr_assert_eq(look->tid, pid[look->token]);
		seen |= UINT64_C(1) << look->token;
	}
	cr_assert_eq(seen, (UINT64_C(1) << KP_ONLOOKER_LOOKS) - 1);
	for (uint32_t i = 0; i < KP_ONLOOKER_LOOKS; i++)
		end_child(pid[i]);
	kp_onlooker_destroy(onlooker);
}

Test(onlooker, killed_lets_go_and_answers_all)
{
	_cleanup_(kp_freep) pid_t *own = NULL;
	struct kp_look *look;
	pid_t pid;

	begin();
	cr_assert_eq(kp_proc_children(getpid(), &own), 1);
	pid = child(wait_in_epoll);
	cr_assert(is_in_state(pid, 'S'));
	kill(own[0], SIGSTOP);
	cr_assert(kp_onlooker_ask(onlooker, pid, pid, 7));
	kill(own[0], SIGKILL);
	look = next();
	cr_assert_not_null(look);
	cr_assert_eq(look->result, KP_LOOK_LATE);
	cr_assert_null(kp_onlooker_next(onlooker));
	cr_assert(kp_onlooker_is_over(onlooker));
	cr_assert_not(kp_onlooker_ask(onlooker, pid, pid, 7));
	cr_assert(is_in_state(pid, 'S'));
	end_child(pid);
	kp_onlooker_destroy(onlooker);
}
