/*
 * The agent's image as a whole, loaded as the daemon loads it, entered as the kernel enters it:
 * what becomes a sample and what is in it. Clocks and mail are in clock.c.
 * Runs on each CPU that has an image, the foreign ones under qemu; never with Criterion, because
 * that is not packaged for them. rig.h has the set-up and the environment variables.
 */
#undef KP_TEST_CRITERION
#include "tests/support/test.h"

#include "rig.h"

#include "agent/syscall.h"
#include "common/unwind/walk.h"

#include <sys/mman.h>

#define CELLS 16
#define DEPTH 64
#define FRAMES 5

static void tick(struct rig *rig, uint32_t frames)
{
	siginfo_t info = rig_timer_info(0, 0);

	rig_signal(rig, &info, frames);
}

Test(agent, header_points_into_the_image)
{
	const struct kp_agent_header *header;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	header = rig_header(&rig);
	cr_assert_eq(header->magic, KP_AGENT_MAGIC);
	cr_assert_eq(header->version, KP_SHM_VERSION);
	cr_assert_geq(header->handler_off, sizeof(*header));
	cr_assert_lt(header->handler_off, KP_SHM_CODE_BYTES);
	cr_assert_geq(header->call_off, sizeof(*header));
	cr_assert_lt(header->call_off, KP_SHM_CODE_BYTES);
	if (rig_arch() == &kp_arch_x86_64)
		cr_assert_arr_eq(rig.code + header->restorer_off,
				 "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
	else
		cr_assert_eq(header->restorer_off, 0);
}

Test(agent, timer_sample_has_the_callers_in_order)
{
	siginfo_t info = rig_timer_info(0, 3);
	const struct kp_ring_record *record;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig_signal(&rig, &info, FRAMES);
	record = rig_read(&rig);
	cr_assert(rig_is_stack(record, rig_in_fire, FRAMES));
	cr_assert_eq(record->source, KP_SOURCE_TIMER);
	cr_assert_eq(record->origin, rig_tid());
	cr_assert_eq(record->overrun, 3);
	cr_assert_eq(record->how, KP_HOW_FP);
	cr_assert_null(rig_read(&rig));
	cr_assert_eq(rig.head->foreign, 0);
}

Test(agent, event_sample_names_its_fd)
{
	siginfo_t info = rig_event_info(17);
	const struct kp_ring_record *record;
	struct kp_regs regs = { .pc = 0x5000 };
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->timer_mode = KP_TIMER_SYSCALL;
	rig_call_handler(&rig, &info, &regs);
	record = rig_read(&rig);
	cr_assert_not_null(record);
	cr_assert_eq(record->source, KP_SOURCE_EVENT);
	cr_assert_eq(record->depth, 1);
	cr_assert_eq(record->pc[0], 0x5000);
	cr_assert_eq(record->origin, 17);
	cr_assert_eq(record->overrun, 0);
}

Test(agent, other_peoples_signals_are_counted_and_ignored)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	siginfo_t killed = rig_plain_info(SI_USER, getpid());
	siginfo_t other_timer = rig_timer_info(0, 0);
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig_signal(&rig, &queued, FRAMES);
	rig_signal(&rig, &killed, FRAMES);
	other_timer.si_ptr = NULL;
	rig_signal(&rig, &other_timer, FRAMES);
	cr_assert_null(rig_read(&rig));
	cr_assert_eq(rig.head->foreign, 3);
}

static volatile int passed;
static void *volatile passed_value, *volatile passed_context;

static void own_handler(int sig, siginfo_t *info, void *ucontext)
{
	passed = passed * 100 + sig;
	passed_value = info->si_ptr;
	passed_context = ucontext;
}

/* The target's action as the kernel keeps it, with libc's restorer. */
static struct kp_sigaction own_action(void)
{
	struct sigaction action = { .sa_sigaction = own_handler, .sa_flags = SA_SIGINFO };
	struct kp_sigaction raw = { 0 };

	sigfillset(&action.sa_mask);
	sigaction(RIG_SIGNAL, &action, NULL);
	kp_syscall(__NR_rt_sigaction, RIG_SIGNAL, 0, kp_syscall_ptr(&raw), 8);
	return raw;
}

Test(agent, other_peoples_signals_go_on_to_the_handler_that_was_there)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	siginfo_t nudge = rig_event_info(3);
	struct kp_sigaction own = own_action();
	struct rig rig;
	int mark;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->saved = own;
	queued.si_ptr = &mark;
	passed = 0;
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(passed, RIG_SIGNAL);
	cr_assert_eq(passed_value, (void *)&mark);
	cr_assert_not_null(passed_context);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(passed, RIG_SIGNAL * 101);
	cr_assert_eq(rig.head->foreign, 2);
	/* What is ours stays with us. */
	rig_signal(&rig, &nudge, FRAMES);
	tick(&rig, FRAMES);
	cr_assert_eq(passed, RIG_SIGNAL * 101);
	cr_assert_not_null(rig_read(&rig));
	/* Also while the agent takes no samples. */
	rig.head->on = 0;
	tick(&rig, FRAMES);
	cr_assert_eq(passed, RIG_SIGNAL * 101);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_eq(passed, RIG_SIGNAL * 10101);
}

Test(agent, signal_without_siginfo_is_an_event_only_where_events_are)
{
	siginfo_t bare = rig_plain_info(SI_USER, 0);
	const struct kp_ring_record *record;
	struct kp_regs regs = { .pc = 0x5000 };
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig_signal(&rig, &bare, FRAMES);
	cr_assert_null(rig_read(&rig));
	cr_assert_eq(rig.head->foreign, 1);

	rig.head->timer_mode = KP_TIMER_SYSCALL;
	rig_call_handler(&rig, &bare, &regs);
	record = rig_read(&rig);
	cr_assert_not_null(record);
	cr_assert_eq(record->source, KP_SOURCE_EVENT);
	cr_assert_eq(record->origin, UINT32_MAX);
	cr_assert_eq(rig.head->foreign, 1);
}

Test(agent, off_is_silent)
{
	siginfo_t queued = rig_plain_info(SI_QUEUE, getpid());
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->on = 0;
	tick(&rig, FRAMES);
	rig_signal(&rig, &queued, FRAMES);
	cr_assert_null(rig_read(&rig));
	cr_assert_eq(rig.head->foreign, 0);
	rig.head->on = 1;
	tick(&rig, FRAMES);
	cr_assert_not_null(rig_read(&rig));
}

Test(agent, full_ring_drops_and_counts)
{
	struct kp_ring_counts counts;
	struct rig rig;
	int kept = 0;

	rig_open(&rig, CELLS, DEPTH);
	for (int i = 0; i < CELLS + 3; i++)
		tick(&rig, FRAMES);
	while (rig_read(&rig))
		kept++;
	kp_ring_count(&rig.reader, &counts);
	cr_assert_eq(kept, CELLS);
	cr_assert_eq(counts.taken, CELLS + 3);
	cr_assert_eq(counts.dropped_full, 3);
}

Test(agent, deep_stack_is_cut_at_the_depth_asked_for)
{
	const struct kp_ring_record *record;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->depth = 3;
	tick(&rig, FRAMES);
	record = rig_read(&rig);
	cr_assert_not_null(record);
	cr_assert_eq(record->depth, 3);
	cr_assert_eq(record->walk_end, KP_WALK_DEPTH);

	/* A head that asks for more than a cell holds gets what a cell holds. */
	rig.head->depth = 10000;
	tick(&rig, DEPTH + 20);
	record = rig_read(&rig);
	cr_assert_not_null(record);
	cr_assert_eq(record->depth, DEPTH);
	cr_assert_eq(record->walk_end, KP_WALK_DEPTH);
}

/* Two pages, of which the second cannot be read. */
static char *half_readable(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	return pages;
}

/* A frame at fp, as this CPU lays it out. */
static void put_frame(char *fp, const char *prev_fp, uint64_t return_address)
{
	const struct kp_frame_layout *layout = &rig_arch()->frame;

	*(uint64_t *)(void *)(fp + layout->prev_fp_off) = (uint64_t)(uintptr_t)prev_fp;
	*(uint64_t *)(void *)(fp + layout->return_off) = return_address;
}

static const struct kp_ring_record *walk_from(struct rig *rig, const char *sp, const char *fp)
{
	siginfo_t info = rig_timer_info(0, 0);
	struct kp_regs regs = { .pc = 0x5000,
				.sp = (uint64_t)(uintptr_t)sp,
				.fp = (uint64_t)(uintptr_t)fp };

	rig_call_handler(rig, &info, &regs);
	return rig_read(rig);
}

Test(agent, chain_into_unreadable_memory_ends_there)
{
	char *pages = half_readable(), *border = pages + 4096;
	const struct kp_ring_record *record;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	put_frame(pages + 64, border + 32, 0x6000);
	record = walk_from(&rig, pages, pages + 64);
	cr_assert_not_null(record);
	cr_assert_eq(record->walk_end, KP_WALK_UNREADABLE);
	cr_assert_eq(record->depth, 2);
	cr_assert_eq(record->pc[0], 0x5000);
	cr_assert_eq(record->pc[1], 0x6000);
}

Test(agent, frame_across_the_border_of_unreadable_memory_is_not_read)
{
	char *pages = half_readable(), *border = pages + 4096;
	const struct kp_frame_layout *layout = &rig_arch()->frame;
	int32_t last =
		layout->return_off > layout->prev_fp_off ? layout->return_off : layout->prev_fp_off;
	const struct kp_ring_record *record;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	/* The higher of the two words is the first of the unreadable page. */
	put_frame(pages + 64, border - last, 0x6000);
	record = walk_from(&rig, pages, pages + 64);
	cr_assert_not_null(record);
	cr_assert_eq(record->walk_end, KP_WALK_UNREADABLE);
	cr_assert_eq(record->depth, 2);
}

Test(agent, nonsense_registers_do_no_harm)
{
	static const uint64_t values[] = {
		1, 7, 8, 4096, 1ul << 47, 1ul << 63, UINT64_MAX - 7, UINT64_MAX
	};
	siginfo_t info = rig_timer_info(0, 0);
	uint32_t n = sizeof(values) / sizeof(values[0]);
	struct rig rig;

	rig_open(&rig, 1024, DEPTH);
	for (uint32_t i = 0; i < n * n * n; i++) {
		struct kp_regs regs = { .pc = values[i % n],
					.sp = values[i / n % n],
					.fp = values[i / n / n] };
		const struct kp_ring_record *record;

		rig.head->timer_mode = i % 2;
		rig_call_handler(&rig, &info, &regs);
		record = rig_read(&rig);
		cr_assert(i % 2 || (record && record->depth == 1));
	}
}

Test(agent, outermost_frame_is_the_whole_stack)
{
	char *pages = half_readable();
	const struct kp_ring_record *record;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	put_frame(pages + 64, pages + 128, 0x6000);
	put_frame(pages + 128, NULL, 0x7000);
	record = walk_from(&rig, pages, pages + 64);
	cr_assert_not_null(record);
	cr_assert_eq(record->walk_end, KP_WALK_ROOT);
	cr_assert_eq(record->depth, 3);
	cr_assert_eq(record->pc[2], 0x7000);
}

static bool is_kept(struct rig *rig, const char *pc)
{
	siginfo_t timer = rig_timer_info(0, 0), event = rig_event_info(5);
	struct kp_regs regs = { .pc = (uint64_t)(uintptr_t)pc };
	bool by_timer;

	rig_call_handler(rig, &timer, &regs);
	by_timer = rig_read(rig) != NULL;
	rig_call_handler(rig, &event, &regs);
	cr_assert_neq(by_timer, rig_read(rig) != NULL, "each place belongs to one clock");
	return by_timer;
}

Test(agent, in_syscall_mode_ticks_behind_a_syscall_are_kept_and_all_other_events)
{
	const struct kp_arch *arch = rig_arch();
	char *pages = half_readable(), *border = pages + 4096;
	siginfo_t event = rig_event_info(5);
	uint64_t ticks;
	struct rig rig;

	rig_open(&rig, CELLS, DEPTH);
	rig.head->timer_mode = KP_TIMER_SYSCALL;
	tick(&rig, FRAMES);
	cr_assert(rig_is_stack(rig_read(&rig), rig_in_fire, FRAMES));
	cr_assert_eq(rig.head->user_ticks, 0);
	/* The same time once more. */
	rig_signal(&rig, &event, FRAMES);
	cr_assert_null(rig_read(&rig));
	cr_assert_eq(rig.head->user_ticks, 1);

	/* The instruction at each place, whole words or not; and one byte of it wrong. */
	for (int i = 100; i < 108; i++) {
		char *pc = pages + i + arch->syscall_size;

		memcpy(pages + i, arch->syscall_bytes, arch->syscall_size);
		cr_assert(is_kept(&rig, pc));
		ticks = rig.head->user_ticks;
		pages[i + 1] ^= 1;
		cr_assert_not(is_kept(&rig, pc));
		cr_assert_eq(rig.head->user_ticks, ticks + 1);
		memset(pages, 0, 4096);
	}

	/* Behind it the memory may end; before it as well. */
	memcpy(border - arch->syscall_size, arch->syscall_bytes, arch->syscall_size);
	cr_assert(is_kept(&rig, border));
	cr_assert_not(is_kept(&rig, border + 4096));
	cr_assert_not(is_kept(&rig, NULL));
}
