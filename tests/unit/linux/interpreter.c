/* Unit tests of what files name as their interpreter. */
#include "daemon/linux/interpreter.h"
#include "tests/support/test.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *of_bytes(const void *data, size_t size, size_t room)
{
	static char path[256];
	int fd = memfd_create("test", MFD_CLOEXEC);

	cr_assert_eq(write(fd, data, size), (ssize_t)size);
	memset(path, '?', sizeof(path));
	kp_interpreter_read(fd, path, room);
	close(fd);
	return path;
}

static const char *of_text(const char *text)
{
	return of_bytes(text, strlen(text), 256);
}

/* A program whose third segment is its dynamic linker's name. */
struct program {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[3];
	char name[24];
};

static struct program make_program(void)
{
	struct program p = { .name = "/lib/ld-test.so.1" };

	memcpy(p.ehdr.e_ident, ELFMAG, SELFMAG);
	p.ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	p.ehdr.e_phoff = offsetof(struct program, phdr);
	p.ehdr.e_phnum = 3;
	p.phdr[2].p_type = PT_INTERP;
	p.phdr[2].p_offset = offsetof(struct program, name);
	p.phdr[2].p_filesz = strlen(p.name) + 1;
	return p;
}

Test(interpreter, is_the_dynamic_linker_of_a_program)
{
	struct program p = make_program();

	cr_assert_str_eq(of_bytes(&p, sizeof(p), 256), "/lib/ld-test.so.1");
	p.phdr[2].p_filesz--; /* without its NUL */
	cr_assert_str_eq(of_bytes(&p, sizeof(p), 256), "/lib/ld-test.so.1");
	p.phdr[2].p_type = PT_LOAD; /* a static one */
	cr_assert_str_eq(of_bytes(&p, sizeof(p), 256), "");
}

Test(interpreter, is_none_where_the_program_makes_no_sense)
{
	struct program p = make_program();

	cr_assert_str_eq(of_bytes(&p, sizeof(p), 8), "");
	cr_assert_str_eq(of_bytes(&p, sizeof(p) - 20, 256), "");
	p.phdr[2].p_offset = UINT64_MAX;
	cr_assert_str_eq(of_bytes(&p, sizeof(p), 256), "");
	p = make_program();
	p.ehdr.e_phoff = UINT64_MAX - 60;
	cr_assert_str_eq(of_bytes(&p, sizeof(p), 256), "");
}

Test(interpreter, is_what_a_script_says)
{
	cr_assert_str_eq(of_text("#!/bin/sh\necho\n"), "/bin/sh");
	cr_assert_str_eq(of_text("#! \t/usr/bin/env python3\n"), "/usr/bin/env");
	cr_assert_str_eq(of_text("#!/bin/sh"), "/bin/sh");
	cr_assert_str_eq(of_text("#!"), "");
	cr_assert_str_eq(of_text("echo\n"), "");
	cr_assert_str_eq(of_text(""), "");
}
