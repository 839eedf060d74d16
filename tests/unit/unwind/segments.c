/* Unit tests of the executable segments of ELF files, on headers made here. */
#include "daemon/unwind/segments.h"
#include "tests/support/test.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADERS_MAX 300

static struct {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[HEADERS_MAX];
} file;

static void begin(void)
{
	memset(&file, 0, sizeof(file));
	memcpy(file.ehdr.e_ident, ELFMAG, SELFMAG);
	file.ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	file.ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	file.ehdr.e_phoff = sizeof(file.ehdr);
	file.ehdr.e_phentsize = sizeof(Elf64_Phdr);
}

static void add(uint32_t flags, uint64_t offset, uint64_t bytes, uint64_t address)
{
	file.phdr[file.ehdr.e_phnum++] = (Elf64_Phdr){ .p_type = PT_LOAD,
						       .p_flags = flags,
						       .p_offset = offset,
						       .p_filesz = bytes,
						       .p_memsz = bytes,
						       .p_vaddr = address };
}

/* Both ways to read it give the same. */
static struct kp_segments get(void)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct kp_segments of_file, of_image;

	cr_assert_eq(write(fd, &file, sizeof(file)), (ssize_t)sizeof(file));
	memset(&of_file, 0xff, sizeof(of_file));
	memset(&of_image, 0xff, sizeof(of_image));
	kp_segments_read(&of_file, fd);
	kp_segments_of_image(&of_image, &file, sizeof(file));
	close(fd);
	cr_assert_eq(memcmp(&of_file, &of_image, sizeof(of_file)), 0);
	return of_file;
}

static bool gives(const struct kp_segments *segments, uint64_t offset, uint64_t wanted)
{
	uint64_t address = 0;

	return kp_segments_address(segments, offset, &address) && address == wanted;
}

static bool refuses(const struct kp_segments *segments, uint64_t offset)
{
	uint64_t address;

	return !kp_segments_address(segments, offset, &address);
}

Test(segments, place_a_mapping_of_gnu_ld)
{
	struct kp_segments s;

	begin();
	add(PF_R, 0, 0x5d8, 0x400000);
	add(PF_R | PF_X, 0x1000, 0x1234, 0x401000);
	add(PF_R | PF_W, 0x2e10, 0x200, 0x403e10);
	s = get();
	cr_assert_eq(s.count, 1);
	cr_assert(gives(&s, 0x1000, 0x401000));
	/* A part that was mapped anew, as when its protection was changed. */
	cr_assert(gives(&s, 0x2000, 0x402000));
	cr_assert(refuses(&s, 0));
	cr_assert(refuses(&s, 0x3000));
}

/* lld puts segments one behind the other in the file and a page apart in memory. */
Test(segments, place_a_mapping_that_starts_before_its_segment)
{
	struct kp_segments s;

	begin();
	add(PF_R, 0, 0x5d8, 0);
	add(PF_R | PF_X, 0x5e0, 0x2000, 0x15e0);
	s = get();
	cr_assert(gives(&s, 0, 0x1000));
	cr_assert(gives(&s, 0x1000, 0x2000));
	cr_assert(refuses(&s, 0x3000));
}

Test(segments, tell_two_in_one_page_apart)
{
	struct kp_segments s;

	begin();
	add(PF_R | PF_X, 0x1000, 0x1240, 0x1000);
	add(PF_R | PF_X, 0x2240, 0x100, 0x80003240);
	s = get();
	cr_assert(gives(&s, 0x1000, 0x1000));
	cr_assert(gives(&s, 0x2000, 0x80003000));
}

Test(segments, keep_what_prelink_has_added)
{
	struct kp_segments s;

	begin();
	add(PF_R | PF_X, 0, 0x8000, 0x3e10000000);
	s = get();
	cr_assert(gives(&s, 0, 0x3e10000000));
	cr_assert(gives(&s, 0x7000, 0x3e10007000));
}

Test(segments, are_none_where_the_header_lies)
{
	begin();
	add(PF_R | PF_X, 0x1000, 0x1000, 0x1000);
	cr_assert_eq(get().count, 1);
	file.ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(get().count, 0);
	file.ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	file.ehdr.e_ident[0] = 'X';
	cr_assert_eq(get().count, 0);
	file.ehdr.e_ident[0] = ELFMAG0;
	file.ehdr.e_phentsize = 1;
	cr_assert_eq(get().count, 0);
	file.ehdr.e_phentsize = sizeof(Elf64_Phdr);
	for (uint64_t bit = 0; bit < 64; bit++) {
		file.ehdr.e_phoff = UINT64_C(1) << bit | sizeof(file.ehdr);
		(void)get();
	}
	file.ehdr.e_phoff = UINT64_MAX - 8;
	cr_assert_eq(get().count, 0);
	file.ehdr.e_phoff = sizeof(file) - 8;
	cr_assert_eq(get().count, 0);
}

Test(segments, are_bounded)
{
	begin();
	for (unsigned i = 0; i < 100; i++)
		add(PF_R | PF_X, i * 0x1000, 0x1000, i * 0x1000);
	cr_assert_eq(get().count, KP_SEGMENTS_MAX);
	for (unsigned i = 100; i < HEADERS_MAX; i++)
		add(PF_R | PF_X, i * 0x1000, 0x1000, i * 0x1000);
	cr_assert_eq(get().count, 0);
	begin();
	add(PF_R | PF_X, UINT64_MAX - 10, 11, 0);
	cr_assert_eq(get().count, 0);
}

Test(segments, of_the_vdso_start_where_it_does)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct kp_segments s;

	cr_assert_not_null(vdso);
	kp_segments_of_image(&s, vdso, 4096);
	cr_assert_eq(s.count, 1);
	cr_assert(gives(&s, 0, s.segment[0].address));
}
