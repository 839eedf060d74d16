/*
 * Classic BPF as seccomp uses it: kernel Documentation/networking/filter.rst, and
 * kernel/seccomp.c, seccomp_check_filter(), for the instructions that are allowed.
 */
#include "daemon/attach/seccomp.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <string.h>

struct machine {
	uint32_t a, x;
	uint32_t mem[BPF_MEMWORDS];
};

static uint32_t operate(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return a / b;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	case BPF_NEG:
		return -a;
	default:
		return 0;
	}
}

static bool jump_taken(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case BPF_JSET:
		return a & b;
	default:
		return false;
	}
}

static bool load(struct machine *m, const struct sock_filter *insn, const struct seccomp_data *data,
		 uint32_t *ret)
{
	switch (BPF_MODE(insn->code)) {
	case BPF_ABS:
		if (insn->k > sizeof(*data) - 4 || insn->k % 4)
			return false;
		memcpy(ret, (const char *)data + insn->k, 4);
		return true;
	case BPF_IMM:
		*ret = insn->k;
		return true;
	case BPF_LEN:
		*ret = sizeof(*data);
		return true;
	case BPF_MEM:
		if (insn->k >= BPF_MEMWORDS)
			return false;
		*ret = m->mem[insn->k];
		return true;
	default:
		return false;
	}
}

/* Jumps only go forward, so count steps are enough for any program. */
uint32_t kp_seccomp_run(const struct sock_filter *program, size_t count,
			const struct seccomp_data *data)
{
	struct machine m = { 0 };

	for (size_t pc = 0; pc < count; pc++) {
		const struct sock_filter *insn = &program[pc];
		uint32_t operand = BPF_SRC(insn->code) == BPF_X ? m.x : insn->k;

		switch (BPF_CLASS(insn->code)) {
		case BPF_LD:
			if (!load(&m, insn, data, &m.a))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_LDX:
			if (!load(&m, insn, data, &m.x))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_ST:
		case BPF_STX:
			if (insn->k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			m.mem[insn->k] = BPF_CLASS(insn->code) == BPF_ST ? m.a : m.x;
			break;
		case BPF_ALU:
			/* The kernel ends the program there, with 0. */
			if (BPF_OP(insn->code) == BPF_DIV && operand == 0)
				return SECCOMP_RET_KILL_THREAD;
			m.a = operate(BPF_OP(insn->code), m.a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(insn->code) == BPF_JA)
				pc += insn->k;
			else
				pc += jump_taken(BPF_OP(insn->code), m.a, operand) ? insn->jt
										   : insn->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(insn->code) == BPF_A ? m.a : insn->k;
		case BPF_MISC:
			if (BPF_MISCOP(insn->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}
