/*
 * System calls out of code: syscalls.h. Looking backwards at instructions of different lengths is a
 * guess, so what is taken has to be a whole load of a small number into the register that the kernel
 * takes it from, the one nearest to the call. Runs in the daemon.
 */
#include "daemon/profile/syscalls.h"

#include "daemon/profile/syscall_names.h"

#include <elf.h>
#include <string.h>

#define NUMBER_MAX 1023

static uint32_t word(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* mov $number,%eax; or xor %eax,%eax, which is read(). Up to end. */
static int number_x86_64(const uint8_t *code, size_t end)
{
	for (size_t at = end; at-- > 0;) {
		if (code[at] == 0xb8 && end - at >= 5 && word(code + at + 1) <= NUMBER_MAX)
			return (int)word(code + at + 1);
		if ((code[at] == 0x31 || code[at] == 0x33) && end - at >= 2 && code[at + 1] == 0xc0)
			return 0;
	}
	return KP_SYSCALL_UNKNOWN;
}

static int find_x86_64(const uint8_t *code, size_t before, size_t size)
{
	static const uint8_t call[] = { 0x0f, 0x05 };

	if (before >= 2 && memcmp(code + before - 2, call, 2) == 0)
		return number_x86_64(code, before - 2);
	if (size - before >= 2 && memcmp(code + before, call, 2) == 0)
		return number_x86_64(code, before);
	return KP_SYSCALL_NONE;
}

/* CPUs with instructions of four bytes: load is that of 0, with the number where mask has none. */
struct fixed {
	uint32_t call, load, mask;
	unsigned shift;
};

static const struct fixed aarch64 = { 0xd4000001, 0xd2800008, 0xffe0001f, 5 }; /* svc 0; mov x8 */
static const struct fixed riscv64 = { 0x00000073, 0x00000893, 0x000fffff, 20 }; /* ecall; li a7 */

static int find_fixed(const struct fixed *cpu, const uint8_t *code, size_t before, size_t size)
{
	size_t call;

	if (before >= 4 && word(code + before - 4) == cpu->call)
		call = before - 4;
	else if (size - before >= 4 && word(code + before) == cpu->call)
		call = before;
	else
		return KP_SYSCALL_NONE;
	while (call >= 4) {
		call -= 4;
		if ((word(code + call) & cpu->mask) == cpu->load)
			return (int)((word(code + call) & ~cpu->mask) >> cpu->shift);
	}
	return KP_SYSCALL_UNKNOWN;
}

int kp_syscall_number(uint16_t machine, const uint8_t *code, size_t before, size_t size)
{
	switch (machine) {
	case EM_X86_64:
		return find_x86_64(code, before, size);
	case EM_AARCH64:
		return find_fixed(&aarch64, code, before, size);
	case EM_RISCV:
		return find_fixed(&riscv64, code, before, size);
	default:
		return KP_SYSCALL_NONE;
	}
}

const char *kp_syscall_name(uint16_t machine, int number)
{
	if (machine != KP_SYSCALL_NAMES_MACHINE || number < 0 ||
	    (size_t)number >= sizeof(kp_syscall_names) / sizeof(*kp_syscall_names))
		return NULL;
	return kp_syscall_names[number];
}
