/* daemon/symbol/plt.c against objdump, which names the stubs of a disassembly. */
#include "daemon/symbol/plt.h"

#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module {
	struct kp_elf_file *file;
	struct kp_symtab *symtab;
	struct kp_plt *plt;
};

static struct module open_module(const char *path)
{
	struct module m;
	struct kp_err err;

	cr_assert_eq(kp_elf_file_open(path, &m.file, &err), 0, "%s", err.text);
	cr_assert_eq(kp_symtab_create(&(struct kp_symtab_source){ m.file, SHT_SYMTAB }, 1,
				      &m.symtab, &err),
		     0);
	cr_assert_eq(kp_plt_create(m.file, m.symtab, &m.plt, &err), 0);
	return m;
}

static void close_module(struct module *m)
{
	kp_plt_destroy(m->plt);
	kp_symtab_destroy(m->symtab);
	kp_elf_file_destroy(m->file);
}

/* "0000000000001030 <puts@plt>:"; a function that is chosen at the start has no name there. */
static bool parse(char *line, uint64_t *ret_address, const char **ret_name)
{
	char *open = strstr(line, " <"), *at = strstr(line, "@plt>:\n");

	if (!open || !at || strncmp(open + 2, "*ABS*", 5) == 0)
		return false;
	*at = '\0';
	*ret_name = open + 2;
	*ret_address = strtoull(line, NULL, 16);
	return true;
}

static void check(const char *name, const char *objdump, unsigned least)
{
	char path[4096], command[8192], line[1024];
	unsigned found = 0;
	struct module m;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", KP_FIXTURE_DIR, name);
	m = open_module(path);
	snprintf(command, sizeof(command), "%s -d '%s'", objdump, path);
	f = popen(command, "r");
	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *wanted, *got;
		uint64_t address;

		if (!parse(line, &address, &wanted))
			continue;
		found++;
		got = kp_plt_find(m.plt, address);
		cr_assert_not_null(got, "%s: nothing at %s %s", name, line, wanted);
		cr_assert_str_eq(got, wanted, "%s: %s, not %s", name, got, wanted);
		/* and in the middle of it */
		cr_assert_str_eq(kp_plt_find(m.plt, address + 4), wanted);
	}
	cr_assert_eq(pclose(f), 0);
	cr_assert_geq(found, least, "%s: objdump names %u stubs", name, found);
	close_module(&m);
}

Test(plt, names_stubs_as_objdump_does)
{
	check("calls", "objdump", 6);
	check("calls-lazy", "objdump", 6);
	check("calls-pads", "objdump", 6);
	check("calls-pads-now", "objdump", 6);
	check("calls-nopie", "objdump", 6);
}

Test(plt, names_stubs_of_another_linker)
{
#ifdef KP_TEST_LLD
	check("calls-lld", "objdump", 6);
#else
	cr_skip_test("no ld.lld");
#endif
}

Test(plt, names_stubs_of_other_cpus)
{
#ifdef KP_TEST_CROSS
	check("calls-aarch64", "aarch64-linux-gnu-objdump", 6);
	check("calls-riscv64", "riscv64-linux-gnu-objdump", 6);
#else
	cr_skip_test("no cross compilers");
#endif
}

/* In a static program the stubs are for functions chosen at the start: named by who chooses. */
Test(plt, names_functions_that_are_chosen_at_the_start)
{
	char path[4096];
	unsigned named = 0;
	struct module m;
	Elf_Scn *scn;
	GElf_Shdr shdr;

	snprintf(path, sizeof(path), "%s/calls-static", KP_FIXTURE_DIR);
	m = open_module(path);
	scn = kp_elf_file_section(m.file, ".plt", &shdr);
	cr_assert_not_null(scn);
	for (uint64_t at = 0; at < shdr.sh_size; at += 16) {
		const char *name = kp_plt_find(m.plt, shdr.sh_addr + at);

		named += name != NULL;
		cr_assert(!name || strstr(name, "str") || strstr(name, "mem") ||
				  strstr(name, "wcs") || strstr(name, "wmem") ||
				  strstr(name, "time"),
			  "%s", name);
	}
	cr_assert_geq(named, 5);
	close_module(&m);
}

Test(plt, has_nothing_where_there_are_no_stubs)
{
	struct module m = open_module(KP_FIXTURE_DIR "/inline-moved");

	for (uint64_t address = 0x7000000; address < 0x7004000; address += 8)
		cr_assert_null(kp_plt_find(m.plt, address));
	cr_assert_null(kp_plt_find(NULL, 0x1000));
	close_module(&m);
}
