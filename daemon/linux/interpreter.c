/* Interpreters of programs and scripts: interpreter.h. The file is anybody's. */
#include "daemon/linux/interpreter.h"

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PHDRS_MAX 64

static bool read_at(int fd, uint64_t offset, void *ret, size_t n)
{
	return offset <= INT64_MAX && pread(fd, ret, n, (off_t)offset) == (ssize_t)n;
}

static bool is_elf(const Elf64_Ehdr *ehdr)
{
	return memcmp(ehdr->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ehdr->e_ident[EI_CLASS] == ELFCLASS64;
}

static void read_linker(int fd, const Elf64_Ehdr *ehdr, char *ret, size_t size)
{
	Elf64_Phdr phdr;

	for (unsigned i = 0; i < ehdr->e_phnum && i < PHDRS_MAX; i++) {
		if (!read_at(fd, ehdr->e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
			return;
		if (phdr.p_type != PT_INTERP)
			continue;
		if (phdr.p_filesz < size && read_at(fd, phdr.p_offset, ret, phdr.p_filesz))
			ret[phdr.p_filesz] = '\0';
		else
			*ret = '\0';
		return;
	}
}

static void read_script(int fd, char *ret, size_t size)
{
	char text[2 + PATH_MAX] = "";
	char *path = text + 2;

	if (pread(fd, text, sizeof(text) - 1, 0) <= 2 || memcmp(text, "#!", 2) != 0)
		return;
	path += strspn(path, " \t");
	path[strcspn(path, " \t\n")] = '\0';
	if (strlen(path) < size)
		memcpy(ret, path, strlen(path) + 1);
}

void kp_interpreter_read(int fd, char *ret, size_t size)
{
	Elf64_Ehdr ehdr;

	*ret = '\0';
	if (read_at(fd, 0, &ehdr, sizeof(ehdr)) && is_elf(&ehdr))
		read_linker(fd, &ehdr, ret, size);
	else
		read_script(fd, ret, size);
}
