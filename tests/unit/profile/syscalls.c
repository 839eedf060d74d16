/* Unit tests of system calls told by code. */
#include "daemon/profile/syscalls.h"
#include "tests/support/test.h"

#include <elf.h>
#include <string.h>
#include <sys/syscall.h>

#define NUMBER(machine, before, ...)                                                               \
	kp_syscall_number(machine, (const uint8_t[]){ __VA_ARGS__ }, before,                       \
			  sizeof((const uint8_t[]){ __VA_ARGS__ }))

Test(syscalls, are_told_by_the_load_before_them)
{
	/* mov $202,%eax; syscall */
	cr_assert_eq(NUMBER(EM_X86_64, 7, 0xb8, 0xca, 0, 0, 0, 0x0f, 0x05, 0x48), 202);
	/* xor %eax,%eax; syscall */
	cr_assert_eq(NUMBER(EM_X86_64, 4, 0x31, 0xc0, 0x0f, 0x05), 0);
	/* the nearest: mov $1,%eax; mov $2,%eax; mov %rdi,%rsi; syscall */
	cr_assert_eq(NUMBER(EM_X86_64, 15, 0xb8, 1, 0, 0, 0, 0xb8, 2, 0, 0, 0, 0x48, 0x89, 0xfe,
			    0x0f, 0x05),
		     2);
	/* one that is to be made again: the place is at it */
	cr_assert_eq(NUMBER(EM_X86_64, 5, 0xb8, 0x23, 0, 0, 0, 0x0f, 0x05), 35);
}

Test(syscalls, may_be_any_where_the_number_is_not_in_the_code)
{
	/* mov %rdi,%rax; syscall */
	cr_assert_eq(NUMBER(EM_X86_64, 5, 0x48, 0x89, 0xf8, 0x0f, 0x05), KP_SYSCALL_UNKNOWN);
	/* mov $0x10000,%eax is no number of a call; a load that is cut off is none */
	cr_assert_eq(NUMBER(EM_X86_64, 7, 0xb8, 0, 0, 1, 0, 0x0f, 0x05), KP_SYSCALL_UNKNOWN);
	cr_assert_eq(NUMBER(EM_X86_64, 5, 0xb8, 1, 0, 0x0f, 0x05), KP_SYSCALL_UNKNOWN);
	cr_assert_eq(NUMBER(EM_X86_64, 2, 0x0f, 0x05), KP_SYSCALL_UNKNOWN);
}

Test(syscalls, are_none_elsewhere)
{
	cr_assert_eq(NUMBER(EM_X86_64, 5, 0xb8, 1, 0, 0, 0, 0x90), KP_SYSCALL_NONE);
	cr_assert_eq(NUMBER(EM_X86_64, 1, 0x05), KP_SYSCALL_NONE);
	cr_assert_eq(NUMBER(EM_X86_64, 0, 0x0f), KP_SYSCALL_NONE);
	cr_assert_eq(NUMBER(EM_386, 7, 0xb8, 1, 0, 0, 0, 0x0f, 0x05), KP_SYSCALL_NONE);
}

Test(syscalls, of_other_cpus)
{
	/* mov x8,#98; mov x1,x0; svc #0 */
	cr_assert_eq(NUMBER(EM_AARCH64, 12, 0x48, 0x0c, 0x80, 0xd2, 0xe1, 0x03, 0x00, 0xaa, 0x01,
			    0x00, 0x00, 0xd4),
		     98);
	cr_assert_eq(NUMBER(EM_AARCH64, 8, 0xe8, 0x03, 0x00, 0xaa, 0x01, 0x00, 0x00, 0xd4),
		     KP_SYSCALL_UNKNOWN);
	/* li a7,98; ecall */
	cr_assert_eq(NUMBER(EM_RISCV, 8, 0x93, 0x08, 0x20, 0x06, 0x73, 0, 0, 0), 98);
	cr_assert_eq(NUMBER(EM_RISCV, 4, 0x93, 0x08, 0x20, 0x06), KP_SYSCALL_NONE);
}

Test(syscalls, have_names_on_their_own_cpu)
{
	uint16_t machine = 0;

	for (uint32_t i = 0; i < 3 && !machine; i++) {
		static const uint16_t known[] = { EM_X86_64, EM_AARCH64, EM_RISCV };

		if (kp_syscall_name(known[i], SYS_futex))
			machine = known[i];
	}
	cr_assert_str_eq(kp_syscall_name(machine, SYS_futex), "futex");
	cr_assert_str_eq(kp_syscall_name(machine, SYS_exit_group), "exit_group");
	cr_assert_null(kp_syscall_name(machine, 1023));
	cr_assert_null(kp_syscall_name(machine, 100000));
	cr_assert_null(kp_syscall_name(machine, -1));
	cr_assert_null(kp_syscall_name(EM_386, SYS_futex));
}
