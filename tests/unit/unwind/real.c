/* Tables of code that is really there: this program, and the vdso as it lies in memory. */
#include "tests/support/test.h"

#include "common/cleanup.h"
#include "daemon/unwind/build.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifdef __x86_64__
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_RISCV
#endif

static struct kp_table build(const void *image, size_t size, void **ret)
{
	struct kp_unwind_stats stats;
	struct kp_table table;
	struct kp_err err;
	size_t bytes;

	cr_assert_eq(kp_unwind_build(image, size, "image", ret, &bytes, &stats, &err), 0);
	cr_assert_gt(stats.fdes, 0);
	cr_assert_eq(stats.bad_fdes, 0);
	cr_assert_eq(kp_table_open(&table, *ret, bytes, MACHINE), 0);
	cr_assert_eq(table.row_count, stats.rows);
	return table;
}

Test(real, knows_the_first_instruction_of_a_function)
{
	_cleanup_(kp_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(kp_freep) void *bytes = NULL;
	extern char __executable_start[];
	struct kp_table_rule rule;
	struct kp_table table;
	struct stat st;
	void *image;

	cr_assert_eq(fstat(fd, &st), 0);
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert(image != MAP_FAILED);
	table = build(image, (size_t)st.st_size, &bytes);

	cr_assert_eq(kp_table_find(&table, (uintptr_t)build - (uintptr_t)__executable_start, &rule),
		     0);
	cr_assert_eq(rule.cfa, KP_CFA_SP);
	cr_assert_eq(rule.fp, KP_REG_SAME);
#ifdef __x86_64__
	cr_assert_eq(rule.cfa_off, 8);
	cr_assert_eq(rule.ra, KP_REG_CFA);
	cr_assert_eq(rule.ra_off, -8);
#else
	cr_assert_eq(rule.cfa_off, 0);
	cr_assert_eq(rule.ra, KP_REG_SAME);
#endif
	cr_assert_eq(kp_table_find(&table, UINT64_MAX, &rule), -1);
	munmap(image, (size_t)st.st_size);
}

/* The kernel's image is as long as its sections' headers, which come last, reach. */
Test(real, knows_the_vdso)
{
	const uint8_t *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_(kp_freep) void *bytes = NULL;
	struct kp_table table;
	const Elf64_Ehdr *header = (const void *)image;

	if (!image)
		return;
	table = build(image, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize,
		      &bytes);
	cr_assert_gt(table.row_count, 4);
}

/*
 * Of what is described only .debug_frame cannot be found without them, and distributions have none.
 * What is read out of code needs them.
 */
Test(real, is_the_same_without_section_headers)
{
	_cleanup_(kp_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(kp_freep) void *with = NULL, *without = NULL;
	struct kp_table_rule described, same;
	struct kp_table all, table;
	struct stat st;
	uint8_t *image;

	cr_assert_eq(fstat(fd, &st), 0);
	image = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	cr_assert(image != MAP_FAILED);
	all = build(image, (size_t)st.st_size, &with);
	((Elf64_Ehdr *)image)->e_shoff = 0;
	((Elf64_Ehdr *)image)->e_shnum = 0;
	table = build(image, (size_t)st.st_size, &without);
	cr_assert_gt(table.row_count, 4);
	for (uint64_t i = 0; i < (uint64_t)table.page_count << KP_TABLE_PAGE_SHIFT; i++) {
		cr_assert_eq(kp_table_find(&table, table.first + i, &described), 0);
		if (described.cfa == KP_CFA_GAP)
			continue;
		cr_assert_eq(kp_table_find(&all, table.first + i, &same), 0);
		cr_assert_arr_eq(&described, &same, sizeof(same));
	}
	munmap(image, (size_t)st.st_size);
}
