/*
 * Finds the table of a CPU by its ELF number. Not part of the agent, which knows its CPU.
 * Pure; any thread.
 */
#include "common/arch/arch.h"

#include <stddef.h>

const struct kp_arch *kp_arch_by_machine(uint16_t elf_machine)
{
	static const struct kp_arch *const arches[] = {
		&kp_arch_x86_64,
		&kp_arch_aarch64,
		&kp_arch_riscv64,
	};

	for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++) {
		if (arches[i]->elf_machine == elf_machine)
			return arches[i];
	}
	return NULL;
}
