/* Unit tests of the build id in an ELF image: found where it is, and nonsense does no harm. */
#include "daemon/linux/maps.h"
#include "tests/support/test.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An ELF file with a program header for something else and one for its notes. */
struct image {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	Elf64_Nhdr other;
	char other_owner[8], other_text[4];
	Elf64_Nhdr note;
	char owner[4];
	uint8_t id[20];
};

static struct image image;
static uint8_t id[64];

static void make(void)
{
	memset(&image, 0, sizeof(image));
	memset(id, 0, sizeof(id));
	memcpy(image.ehdr.e_ident, ELFMAG, SELFMAG);
	image.ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	image.ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	image.ehdr.e_phoff = offsetof(struct image, phdr);
	image.ehdr.e_phentsize = sizeof(Elf64_Phdr);
	image.ehdr.e_phnum = 2;
	image.phdr[0].p_type = PT_LOAD;
	image.phdr[1].p_type = PT_NOTE;
	image.phdr[1].p_offset = offsetof(struct image, other);
	image.phdr[1].p_filesz = sizeof(image) - offsetof(struct image, other);
	image.phdr[1].p_align = 4;
	image.other = (Elf64_Nhdr){ .n_namesz = 5, .n_descsz = 3, .n_type = NT_GNU_BUILD_ID };
	memcpy(image.other_owner, "Self", 5);
	image.note = (Elf64_Nhdr){ .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };
	memcpy(image.owner, "GNU", 4);
	for (int i = 0; i < 20; i++)
		image.id[i] = (uint8_t)(i + 1);
}

static size_t read_id(size_t size)
{
	return kp_build_id_of_image(&image, size, id, sizeof(id));
}

Test(build_id, is_found_behind_other_notes)
{
	make();
	cr_assert_eq(read_id(sizeof(image)), 20);
	cr_assert_eq(id[0], 1);
	cr_assert_eq(id[19], 20);
}

Test(build_id, is_the_same_from_a_file)
{
	int fd = memfd_create("image", 0);

	make();
	cr_assert_eq(write(fd, &image, sizeof(image)), (ssize_t)sizeof(image));
	cr_assert_eq(kp_build_id_read(fd, id, sizeof(id)), 20);
	cr_assert_eq(id[19], 20);
	close(fd);
}

Test(build_id, is_cut_to_the_room_there_is)
{
	make();
	id[8] = 99;
	cr_assert_eq(kp_build_id_of_image(&image, sizeof(image), id, 8), 8);
	cr_assert_eq(id[7], 8);
	cr_assert_eq(id[8], 99);
}

Test(build_id, no_prefix_of_an_image_does_harm)
{
	make();
	for (size_t size = 0; size < offsetof(struct image, id) + sizeof(image.id); size++) {
		struct image *part = size ? malloc(size) : NULL; /* so that reading on is seen */

		if (part)
			memcpy(part, &image, size);
		cr_assert_eq(kp_build_id_of_image(part ? part : &image, size, id, sizeof(id)), 0);
		free(part);
	}
}

Test(build_id, other_files_have_none)
{
	make();
	image.ehdr.e_ident[0] = 'x';
	cr_assert_eq(read_id(sizeof(image)), 0);
	make();
	image.ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(read_id(sizeof(image)), 0);
	make();
	image.ehdr.e_ident[EI_DATA] = ELFDATA2MSB;
	cr_assert_eq(read_id(sizeof(image)), 0);
	make();
	image.phdr[1].p_type = PT_LOAD;
	cr_assert_eq(read_id(sizeof(image)), 0);
	make();
	memcpy(image.owner, "Gnu", 4);
	cr_assert_eq(read_id(sizeof(image)), 0);
}

/* Each number in turn as large as it can be, and each byte in turn as anything. */
Test(build_id, hostile_numbers_do_no_harm)
{
	for (size_t at = 0; at < sizeof(image); at++) {
		static const uint8_t bytes[] = { 0, 1, 0x7f, 0x80, 0xff };

		for (size_t i = 0; i < sizeof(bytes); i++) {
			make();
			((uint8_t *)&image)[at] = bytes[i];
			cr_assert_leq(read_id(sizeof(image)), sizeof(id));
		}
	}
	for (size_t at = 0; at + 8 <= sizeof(image); at += 4) {
		make();
		memset((uint8_t *)&image + at, 0xff, 8);
		cr_assert_leq(read_id(sizeof(image)), sizeof(id));
	}
	make();
	image.phdr[1].p_offset = UINT64_MAX - 8;
	cr_assert_eq(read_id(sizeof(image)), 0);
	make();
	image.other.n_namesz = UINT32_MAX;
	image.other.n_descsz = UINT32_MAX;
	cr_assert_eq(read_id(sizeof(image)), 0);
}
