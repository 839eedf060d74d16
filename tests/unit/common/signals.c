/*
 * Stacks with signal frames in them, for each CPU: a step out of one, and walks. The frame's layout
 * is compared with what the kernel (qemu, for foreign CPUs) really leaves on the stack.
 */
#include "tests/support/test.h"
#include "tests/unit/common/stacks.h"

#include <signal.h>
#include <ucontext.h>

/* ---- a step ---- */

Test(signals, frame_gives_all_registers_back)
{
	static const struct kp_table_rule rule = { .cfa = KP_CFA_SIGNAL };

	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs kept = { TEXT + 5, at(3), 77, 88, 99 },
			       regs = { TEXT, at(20), 7, 8, 9 };
		struct stacks stacks;

		stacks_init(&stacks);
		put_signal_frame(arches[i], &stacks.stack[20], &kept);
		cr_assert_eq(step(&stacks, arches[i], rule, &regs), KP_WALK_ON);
		cr_assert_eq(regs.pc, kept.pc);
		cr_assert_eq(regs.sp, kept.sp); /* below: it was on another stack */
		cr_assert_eq(regs.fp, kept.fp);
		cr_assert_eq(regs.ra, arches[i]->signal.ra_off ? kept.ra : 0);
		cr_assert_eq(regs.base, arches[i]->signal.base_off ? kept.base : KP_REG_LOST);
	}
}

/* As when a null pointer was called: no outermost frame. */
Test(signals, frame_of_no_code_stops)
{
	static const struct kp_table_rule rule = { .cfa = KP_CFA_SIGNAL };
	static const uint64_t bad[] = { 0, 4095, UINT64_MAX };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kp_regs kept = { bad[i], at(60), 0, 0, 0 }, regs = { TEXT, at(20), 7, 8, 9 };
		struct stacks stacks;

		stacks_init(&stacks);
		put_signal_frame(&kp_arch_x86_64, &stacks.stack[20], &kept);
		cr_assert_eq(step(&stacks, &kp_arch_x86_64, rule, &regs), KP_WALK_BAD_PC);
	}
}

#if defined(__x86_64__)
#define HOST kp_arch_x86_64
#define MACHINE_REGS(mc)                                                                           \
	{                                                                                          \
		(uint64_t)(mc)->gregs[REG_RIP], (uint64_t)(mc)->gregs[REG_RSP],                    \
			(uint64_t)(mc)->gregs[REG_RBP], 0, (uint64_t)(mc)->gregs[REG_RBX]          \
	}
#elif defined(__aarch64__)
#define HOST kp_arch_aarch64
#define MACHINE_REGS(mc)                                                                           \
	{                                                                                          \
		(mc)->pc, (mc)->sp, (mc)->regs[29], (mc)->regs[30], KP_REG_LOST                    \
	}
#elif defined(__riscv)
#define HOST kp_arch_riscv64
#define MACHINE_REGS(mc)                                                                           \
	{                                                                                          \
		(mc)->__gregs[0], (mc)->__gregs[2], (mc)->__gregs[8], (mc)->__gregs[1],            \
			KP_REG_LOST                                                                \
	}
#endif

static int read_own(void *ctx, uint64_t addr, uint64_t *ret)
{
	(void)ctx;
	*ret = *(const volatile uint64_t *)(uintptr_t)addr;
	return 0;
}

/* Where the handler was called from, and what was interrupted, as libc's headers say it. */
static volatile struct {
	int called;
	enum kp_walk_end end;
	struct kp_regs expected, stepped;
	uint64_t link;
	uint8_t restorer[16];
} seen;

__attribute__((noinline)) static void on_signal(int sig, siginfo_t *info, void *ucontext)
{
	static const struct kp_table_rule rule = { .cfa = KP_CFA_SIGNAL };
	const struct kp_cfi_step step = { .arch = &HOST, .read_word = read_own };
	const mcontext_t *mc = &((const ucontext_t *)ucontext)->uc_mcontext;
	struct kp_regs expected = MACHINE_REGS(mc), regs = { .ra = 0 };
	const uint8_t *restorer = __builtin_return_address(0);

	(void)sig;
	(void)info;
	/* What sp is when this function has returned. */
	regs.sp = (uint64_t)(uintptr_t)__builtin_dwarf_cfa();
	seen.link = *(const uint64_t *)(uintptr_t)(regs.sp + HOST.signal.link_off);
	seen.expected = expected;
	seen.end = kp_cfi_step(&step, &rule, &regs);
	seen.stepped = regs;
	for (uint32_t i = 0; i < HOST.signal.restorer_size; i++)
		seen.restorer[i] = restorer[i];
	seen.called = 1;
}

Test(signals, frame_is_what_the_kernel_makes)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	cr_assert(seen.called);
	cr_assert_eq(seen.end, KP_WALK_ON);
	cr_assert_neq(seen.expected.pc, 0);
	cr_assert_eq(seen.stepped.pc, seen.expected.pc);
	cr_assert_eq(seen.stepped.sp, seen.expected.sp);
	cr_assert_eq(seen.stepped.fp, seen.expected.fp);
	cr_assert_eq(seen.stepped.ra, seen.expected.ra);
	cr_assert_eq(seen.link, 0);
	for (uint32_t i = 0; i < HOST.signal.restorer_size; i++)
		cr_assert_eq(seen.restorer[i], HOST.signal.restorer_bytes[i]);
}

/* ---- walks ---- */

#define RESTORER FUNCTION(8)

/*
 * Function 0, a handler, returns to the restorer at function 8; the signal frame behind the handler's
 * frame says that function 1 was interrupted, somewhere in its first instructions.
 */
static struct kp_regs in_handler(struct stacks *stacks, const struct kp_arch *arch,
				 uint64_t *handler_stack, uint64_t handler_sp,
				 const struct kp_regs *interrupted)
{
	handler_stack[3] = RESTORER;
	put_signal_frame(arch, handler_stack + 4, interrupted);
	stacks->rules[0] = sp_rule(4, -1, 0);
	return (struct kp_regs){ .pc = FUNCTION(0), .sp = handler_sp, .fp = NOWHERE };
}

static void assert_interrupted(const struct walked *walked, uint64_t interrupted_pc)
{
	cr_assert_eq(walked->n, 5);
	cr_assert_eq(walked->pc[0], FUNCTION(0));
	cr_assert_eq(walked->pc[1], RESTORER);
	cr_assert_eq(walked->pc[2], interrupted_pc + 1);
	cr_assert_eq(walked->pc[3], CALL(2));
	cr_assert_eq(walked->pc[4], CALL(3));
	cr_assert_eq(walked->end, KP_WALK_OUTERMOST);
}

Test(signals, goes_through_a_signal_frame_to_any_stack)
{
	for (size_t i = 0; i < ARCHES; i++) {
		for (int altstack = 0; altstack < 2; altstack++) {
			struct kp_regs interrupted, regs;
			struct stacks stacks;
			struct walked walked;

			/* The interrupted code's stack is below or above the handler's. */
			interrupted = three_frames(&stacks);
			interrupted.pc = FUNCTION(1);
			interrupted.sp = at(14);
			if (!altstack)
				memcpy(stacks.alt, stacks.stack, sizeof(stacks.stack));
			if (!altstack)
				interrupted.sp = alt_at(14);
			regs = in_handler(&stacks, arches[i],
					  altstack ? stacks.alt : stacks.stack + 30,
					  altstack ? ALTSTACK : at(30), &interrupted);
			stacks.rules[7].cfa = KP_CFA_SIGNAL; /* glibc's begins a byte early */
			walked = walk(&stacks, arches[i], KP_UNWIND_TABLE, regs);
			assert_interrupted(&walked, FUNCTION(1));
			cr_assert_eq(walked.how, KP_HOW_TABLE | KP_HOW_SIGNAL);
			cr_assert_eq(stacks.asked[1], RESTORER - 1);
			cr_assert_eq(stacks.asked[2], FUNCTION(1)); /* where it was interrupted */
		}
	}
}

Test(signals, interrupted_code_has_its_link_register)
{
	for (size_t i = 1; i < ARCHES; i++) { /* those that have one */
		struct kp_regs interrupted, regs;
		struct stacks stacks;
		struct walked walked;

		interrupted = three_frames(&stacks);
		interrupted.pc = FUNCTION(1);
		interrupted.sp = at(20);
		interrupted.ra = CALL(2);
		stacks.rules[1] = (struct kp_table_rule){ .cfa = KP_CFA_SP, .ra = KP_REG_SAME };
		regs = in_handler(&stacks, arches[i], stacks.alt, ALTSTACK, &interrupted);
		stacks.rules[7].cfa = KP_CFA_SIGNAL;
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		assert_interrupted(&walked, FUNCTION(1));
	}
}

/* Its own registers are not what the leaf's are. */
Test(signals, interrupted_code_has_no_other_registers)
{
	struct kp_regs interrupted, regs;
	struct stacks stacks;
	struct walked walked;

	interrupted = three_frames(&stacks);
	interrupted.pc = FUNCTION(1);
	interrupted.sp = at(5);
	stacks.rules[1].cfa = KP_CFA_REG;
	stacks.rules[1].reg = 3;
	regs = in_handler(&stacks, &kp_arch_x86_64, stacks.alt, ALTSTACK, &interrupted);
	stacks.rules[7].cfa = KP_CFA_SIGNAL;
	walked = walk(&stacks, &kp_arch_x86_64, KP_UNWIND_AUTO, regs);
	cr_assert_eq(walked.n, 3);
	cr_assert_eq(walked.end, KP_WALK_NO_RULE);
}

Test(signals, recognises_a_restorer_without_a_rule)
{
	for (size_t i = 0; i < ARCHES; i++) {
		uint32_t step = arches[i] == &kp_arch_x86_64 ? 1 : 4;

		for (uint32_t off = 0; off < 8; off += step) {
			struct kp_regs interrupted, regs;
			struct stacks stacks;
			struct walked walked;

			interrupted = three_frames(&stacks);
			interrupted.pc = FUNCTION(1);
			interrupted.sp = at(14);
			regs = in_handler(&stacks, arches[i], stacks.alt, ALTSTACK, &interrupted);
			stacks.alt[3] += off;
			put_restorer(&stacks, arches[i], RESTORER + off);
			walked = walk(&stacks, arches[i], KP_UNWIND_TABLE, regs);
			cr_assert_eq(walked.pc[1], RESTORER + off);
			walked.pc[1] = RESTORER;
			assert_interrupted(&walked, FUNCTION(1));
			cr_assert_eq(walked.how, KP_HOW_TABLE | KP_HOW_SIGNAL);
		}
	}
}

Test(signals, takes_nothing_else_for_a_restorer)
{
	for (size_t i = 0; i < ARCHES; i++) {
		for (uint32_t at_byte = 0; at_byte <= arches[i]->signal.restorer_size; at_byte++) {
			struct kp_regs interrupted, regs;
			struct stacks stacks;
			struct walked walked;

			interrupted = three_frames(&stacks);
			interrupted.pc = FUNCTION(1);
			interrupted.sp = at(14);
			regs = in_handler(&stacks, arches[i], stacks.alt, ALTSTACK, &interrupted);
			put_restorer(&stacks, arches[i], RESTORER);
			if (at_byte < arches[i]->signal.restorer_size)
				((uint8_t *)stacks.text)[RESTORER - TEXT + at_byte] ^= 1;
			else /* not what the kernel leaves */
				stacks.alt[4 + arches[i]->signal.link_off / 8] = 1;
			walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
			cr_assert_eq(walked.n, 2);
			cr_assert_eq(walked.end, KP_WALK_MISALIGNED);
			cr_assert_eq(walked.how, KP_HOW_TABLE);
		}
	}
}

Test(signals, frame_pointers_go_through_a_signal_frame_too)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs interrupted, regs;
		struct stacks stacks;
		struct walked walked;

		if (!arches[i]->frame.sp_after_exact)
			continue; /* where its signal frame is is not known */
		interrupted = fp_chain(&stacks, arches[i]);
		interrupted.pc = NO_TABLE;
		/* The handler on the other stack has a frame like any other. */
		regs = in_handler(&stacks, arches[i], stacks.alt, ALTSTACK, &interrupted);
		stacks.rules[0].cfa = KP_CFA_GAP;
		stacks.alt[2] = interrupted.fp;
		regs.fp = alt_at(4) - (uint64_t)arches[i]->frame.sp_after_off;
		put_restorer(&stacks, arches[i], RESTORER);
		walked = walk(&stacks, arches[i], KP_UNWIND_AUTO, regs);
		cr_assert_eq(walked.n, 7);
		cr_assert_eq(walked.pc[1], RESTORER);
		cr_assert_eq(walked.pc[2], NO_TABLE + 1);
		cr_assert_eq(walked.pc[3], CALL(1));
		cr_assert_eq(walked.end, KP_WALK_ROOT);
		cr_assert_eq(walked.how, KP_HOW_FP | KP_HOW_SIGNAL);
	}
}

/* The kernel leaves a frame record above the signal frame: the chain goes on there. */
Test(signals, aarch64_frame_is_not_guessed)
{
	const struct kp_arch *arch = &kp_arch_aarch64;
	struct kp_regs interrupted, regs;
	struct stacks stacks;
	struct walked walked;

	interrupted = fp_chain(&stacks, arch);
	interrupted.pc = NO_TABLE;
	regs = in_handler(&stacks, arch, stacks.alt, ALTSTACK, &interrupted);
	stacks.rules[0].cfa = KP_CFA_GAP;
	stacks.alt[2] = alt_at(100);
	stacks.alt[100] = 0;
	stacks.alt[101] = CALL(1);
	regs.fp = alt_at(2); /* right below the signal frame, which no walk can know */
	put_restorer(&stacks, arch, RESTORER);
	walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);
	cr_assert_eq(walked.n, 3);
	cr_assert_eq(walked.pc[2], CALL(1));
	cr_assert_eq(walked.how, KP_HOW_FP);
}

/* fp.h's rule for a leaf: only the previous frame pointer is there, the rest is in ra. */
Test(signals, riscv64_interrupted_leaf_is_a_leaf)
{
	const struct kp_arch *arch = &kp_arch_riscv64;
	struct kp_regs interrupted, regs;
	struct stacks stacks;
	struct walked walked;

	interrupted = fp_chain(&stacks, arch);
	stacks.stack[13] = interrupted.fp;
	interrupted = (struct kp_regs){ NO_TABLE, at(10), at(14), CALL(9), KP_REG_LOST };
	regs = in_handler(&stacks, arch, stacks.alt, ALTSTACK, &interrupted);
	stacks.rules[7].cfa = KP_CFA_SIGNAL;
	walked = walk(&stacks, arch, KP_UNWIND_AUTO, regs);
	cr_assert_eq(walked.n, 8);
	cr_assert_eq(walked.pc[3], CALL(9));
	cr_assert_eq(walked.pc[4], CALL(1));
	cr_assert_eq(walked.end, KP_WALK_ROOT);
}

Test(signals, that_go_round_end)
{
	for (size_t i = 0; i < ARCHES; i++) {
		struct kp_regs interrupted = { FUNCTION(0), at(30), NOWHERE, 0, KP_REG_LOST }, regs;
		struct stacks stacks;
		struct kp_walk walk = {
			.arch = arches[i],
			.read_word = stacks_read,
			.read_ctx = &stacks,
			.find_rule = stacks_find,
			.find_ctx = &stacks,
		};
		uint64_t pc[64];
		uint32_t n, how;

		stacks_init(&stacks);
		regs = in_handler(&stacks, arches[i], stacks.stack + 30, at(30), &interrupted);
		stacks.rules[7].cfa = KP_CFA_SIGNAL;
		cr_assert_eq(kp_walk(&walk, regs, pc, 64, &n, &how), KP_WALK_NOT_ADVANCING);
		/* A handler and its restorer for each signal that is followed; the ninth is not. */
		cr_assert_eq(n, 2 * 8 + 2);
	}
}
