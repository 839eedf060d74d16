/*
 * The evaluator of seccomp filters. Where this process may install filters, its verdicts are compared
 * with the kernel's own.
 */
#include "daemon/attach/seccomp.h"

#include "tests/support/test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define AT(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define RET(k) BPF_STMT(BPF_RET | BPF_K, k)
#define RET_A BPF_STMT(BPF_RET | BPF_A, 0)

static const struct seccomp_data call = {
	.nr = 7,
	.arch = 0xc000003e,
	.instruction_pointer = 0x1122334455667788,
	.args = { 0xaabbccdd00000005, 0xffffffffffffffff, 3, 0, 0, 0x8000000000000000 },
};

#define VERDICT(...)                                                                               \
	({                                                                                         \
		const struct sock_filter program[] = { __VA_ARGS__ };                              \
		kp_seccomp_run(program, COUNT(program), &call);                                    \
	})

Test(bpf, returns_a_constant_or_the_accumulator)
{
	cr_assert_eq(VERDICT(RET(ALLOW)), ALLOW);
	cr_assert_eq(VERDICT(RET(SECCOMP_RET_ERRNO | 13)), SECCOMP_RET_ERRNO | 13);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 99), RET_A), 99);
}

Test(bpf, loads_words_of_the_call_by_offset)
{
	cr_assert_eq(VERDICT(LOAD(AT(nr)), RET_A), 7);
	cr_assert_eq(VERDICT(LOAD(AT(arch)), RET_A), 0xc000003e);
	cr_assert_eq(VERDICT(LOAD(AT(instruction_pointer) + 4), RET_A), 0x11223344);
	cr_assert_eq(VERDICT(LOAD(AT(args)), RET_A), 5);
	cr_assert_eq(VERDICT(LOAD(AT(args) + 4), RET_A), 0xaabbccdd);
	cr_assert_eq(VERDICT(LOAD(AT(args) + 5 * 8 + 4), RET_A), 0x80000000);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), RET_A), sizeof(call));
}

Test(bpf, takes_a_load_outside_the_call_as_a_kill)
{
	cr_assert_eq(VERDICT(LOAD(sizeof(call)), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(LOAD(sizeof(call) - 3), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(LOAD(1), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(LOAD(UINT32_MAX), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(LOAD(UINT32_MAX - 3), RET(ALLOW)), KILL);
}

/* op on 12 and 5, the second from the instruction and from x. */
static void check_alu(uint32_t op, uint32_t expected)
{
	cr_assert_eq(
		VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_STMT(BPF_ALU | op | BPF_K, 5), RET_A),
		expected);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LDX | BPF_IMM, 5), BPF_STMT(BPF_LD | BPF_IMM, 12),
			     BPF_STMT(BPF_ALU | op | BPF_X, 0), RET_A),
		     expected);
}

Test(bpf, calculates)
{
	check_alu(BPF_ADD, 17);
	check_alu(BPF_SUB, 7);
	check_alu(BPF_MUL, 60);
	check_alu(BPF_DIV, 2);
	check_alu(BPF_OR, 13);
	check_alu(BPF_AND, 4);
	check_alu(BPF_XOR, 9);
	check_alu(BPF_LSH, 384);
	check_alu(BPF_RSH, 0);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_STMT(BPF_ALU | BPF_NEG, 0), RET_A),
		     (uint32_t)-12);
}

Test(bpf, survives_what_c_leaves_undefined)
{
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0),
			     RET_A),
		     12);
	VERDICT(BPF_STMT(BPF_LDX | BPF_IMM, 40), BPF_STMT(BPF_LD | BPF_IMM, 1),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0), RET_A);
	/* Division by x = 0 ends the program in the kernel, with 0: a kill. */
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW),
			     BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), RET(ALLOW)) &
			     SECCOMP_RET_ACTION_FULL,
		     SECCOMP_RET_KILL_THREAD);
}

/* A jump on 12 against k: 1 if it is taken. */
static uint32_t taken(uint32_t op, uint32_t k)
{
	return VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_JUMP(BPF_JMP | op | BPF_K, k, 1, 0),
		       RET(0), RET(1));
}

Test(bpf, jumps)
{
	cr_assert_eq(taken(BPF_JEQ, 12), 1);
	cr_assert_eq(taken(BPF_JEQ, 13), 0);
	cr_assert_eq(taken(BPF_JGT, 11), 1);
	cr_assert_eq(taken(BPF_JGT, 12), 0);
	cr_assert_eq(taken(BPF_JGE, 12), 1);
	cr_assert_eq(taken(BPF_JGE, 13), 0);
	cr_assert_eq(taken(BPF_JGT, 0x80000000), 0); /* unsigned */
	cr_assert_eq(taken(BPF_JSET, 4), 1);
	cr_assert_eq(taken(BPF_JSET, 3), 0);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_JMP | BPF_JA, 1), RET(0), RET(1)), 1);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LDX | BPF_IMM, 7), LOAD(AT(nr)),
			     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1), RET(1), RET(0)),
		     1);
}

Test(bpf, keeps_words_in_its_memory_and_in_x)
{
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_STMT(BPF_ST, 15),
			     BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_LD | BPF_MEM, 15), RET_A),
		     12);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LDX | BPF_IMM, 9), BPF_STMT(BPF_STX, 0),
			     BPF_STMT(BPF_LD | BPF_MEM, 0), RET_A),
		     9);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_IMM, 12), BPF_STMT(BPF_MISC | BPF_TAX, 0),
			     BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_MISC | BPF_TXA, 0), RET_A),
		     12);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0),
			     BPF_STMT(BPF_MISC | BPF_TXA, 0), RET_A),
		     sizeof(call));
	cr_assert_eq(VERDICT(BPF_STMT(BPF_ST, 16), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_LD | BPF_MEM, 16), RET(ALLOW)), KILL);
}

Test(bpf, takes_a_program_that_does_not_end_as_a_kill)
{
	cr_assert_eq(kp_seccomp_run(NULL, 0, &call), KILL);
	cr_assert_eq(VERDICT(LOAD(AT(nr))), KILL);
	cr_assert_eq(VERDICT(BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), RET(ALLOW)), KILL);
	cr_assert_eq(VERDICT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0, 255, 255), RET(ALLOW)), KILL);
}

/* ---- against the kernel ---- */

#define PROBED SYS_getpriority
#define ERRNO_BASE 100

static uint32_t audit_arch(void)
{
#if defined(__x86_64__)
	return AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
	return AUDIT_ARCH_AARCH64;
#else
	return AUDIT_ARCH_RISCV64;
#endif
}

enum { NO_FILTERS = -1, KILLED = -2 };

/* What getpriority(a, b) comes to under the program, in a child: its errno, or one of the above. */
static int kernel_says(const struct sock_filter *program, size_t count, long a, long b)
{
	struct sock_fprog fprog = { .len = (unsigned short)count,
				    .filter = (struct sock_filter *)(uintptr_t)program };
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) != 0)
			_exit(255);
		errno = 0;
		syscall(PROBED, a, b);
		_exit(errno);
	}
	cr_assert(child > 0 && waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		return KILLED;
	return WEXITSTATUS(status) == 255 ? NO_FILTERS : WEXITSTATUS(status);
}

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* One instruction that the kernel accepts, anywhere in a program. */
static struct sock_filter random_insn(uint64_t *state)
{
	static const uint16_t alu[] = {
		BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR, BPF_AND, BPF_XOR, BPF_DIV
	};
	static const uint16_t jumps[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	uint32_t r = next_random(state), k = next_random(state) % 8;

	switch (r % 8) {
	case 0:
		return (struct sock_filter)LOAD(AT(args) + 4 * (r / 8 % 4));
	case 1:
		return (struct sock_filter)BPF_STMT(BPF_ALU | alu[r / 8 % 7] | BPF_K, k + 1);
	case 2:
		return (struct sock_filter)BPF_STMT(BPF_ALU | alu[r / 8 % 7] | BPF_X, 0);
	case 3:
		return (struct sock_filter)BPF_STMT(BPF_ALU | (r & 8 ? BPF_LSH : BPF_RSH) | BPF_K,
						    k);
	case 4:
		return (struct sock_filter)BPF_JUMP(BPF_JMP | jumps[r / 8 % 4] |
							    (r & 128 ? BPF_X : BPF_K),
						    k, r / 16 % 3, r / 64 % 3);
	case 5:
		return (struct sock_filter)BPF_STMT(BPF_MISC | (r & 8 ? BPF_TAX : BPF_TXA), 0);
	case 6:
		return (struct sock_filter)BPF_STMT(BPF_ST, k);
	default:
		return (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, next_random(state));
	}
}

/*
 * Lets every other call through; for getpriority() 12 random instructions, and an errno between
 * ERRNO_BASE and ERRNO_BASE + 31 that their accumulator chooses.
 */
#define BODY 12
static size_t random_program(uint64_t *state, struct sock_filter program[BODY + 16])
{
	size_t n = 0;

	program[n++] = (struct sock_filter)LOAD(AT(nr));
	program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROBED, 1, 0);
	program[n++] = (struct sock_filter)RET(ALLOW);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_LDX | BPF_IMM, next_random(state) % 64 + 1);
	for (int i = 0; i < BODY; i++)
		program[n++] = random_insn(state);
	/* Where the jumps of the last ones lead; all bits of the result fold into five. */
	for (int i = 0; i < 2; i++)
		program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 13);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 31);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K,
						    SECCOMP_RET_ERRNO | ERRNO_BASE);
	program[n++] = (struct sock_filter)RET_A;
	return n;
}

Test(bpf, agrees_with_the_kernel)
{
	uint64_t state = 1;

	for (int round = 0; round < 300; round++) {
		struct sock_filter program[BODY + 16];
		size_t count = random_program(&state, program);
		struct seccomp_data data = { .nr = PROBED,
					     .arch = audit_arch(),
					     .args = { next_random(&state), next_random(&state) } };
		uint32_t ours = kp_seccomp_run(program, count, &data);
		int kernel = kernel_says(program, count, (long)data.args[0], (long)data.args[1]);

		if (kernel == NO_FILTERS)
			return;
		if (kernel == KILLED)
			cr_assert_eq(ours & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_KILL_THREAD,
				     "round %d", round);
		else
			cr_assert_eq(ours, SECCOMP_RET_ERRNO | (uint32_t)kernel,
				     "round %d: %#x, kernel %d", round, ours, kernel);
	}
}
