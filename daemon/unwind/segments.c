/* The executable segments of an ELF file: segments.h. Daemon. */
#include "daemon/unwind/segments.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#define PHNUM_MAX 256u

/* How many program headers there are to be read, at e_phoff. */
static size_t count_headers(const Elf64_Ehdr *ehdr)
{
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 || ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr->e_ident[EI_DATA] != ELFDATA2LSB || ehdr->e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr->e_phnum > PHNUM_MAX || ehdr->e_phoff > INT64_MAX)
		return 0;
	return ehdr->e_phnum;
}

static void take(struct kp_segments *segments, const Elf64_Phdr *phdr, size_t count)
{
	for (size_t i = 0; i < count && segments->count < KP_SEGMENTS_MAX; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_X &&
		    phdr[i].p_filesz <= UINT64_MAX - phdr[i].p_offset)
			segments->segment[segments->count++] =
				(struct kp_segment){ phdr[i].p_offset, phdr[i].p_filesz,
						     phdr[i].p_vaddr };
}

void kp_segments_read(struct kp_segments *ret, int fd)
{
	Elf64_Phdr phdr[PHNUM_MAX];
	Elf64_Ehdr ehdr;
	size_t count;

	*ret = (struct kp_segments){ 0 };
	if (pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr))
		return;
	count = count_headers(&ehdr);
	if (pread(fd, phdr, count * sizeof(*phdr), (off_t)ehdr.e_phoff) ==
	    (ssize_t)(count * sizeof(*phdr)))
		take(ret, phdr, count);
}

void kp_segments_of_image(struct kp_segments *ret, const void *image, size_t size)
{
	Elf64_Phdr phdr[PHNUM_MAX];
	Elf64_Ehdr ehdr;
	size_t count;

	*ret = (struct kp_segments){ 0 };
	if (size < sizeof(ehdr))
		return;
	memcpy(&ehdr, image, sizeof(ehdr));
	count = count_headers(&ehdr);
	if (ehdr.e_phoff > size || count * sizeof(*phdr) > size - ehdr.e_phoff)
		return;
	memcpy(phdr, (const uint8_t *)image + ehdr.e_phoff, count * sizeof(*phdr));
	take(ret, phdr, count);
}

bool kp_segments_address(const struct kp_segments *segments, uint64_t file_offset, uint64_t *ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct kp_segment *found = NULL;

	for (uint32_t i = 0; i < segments->count; i++) {
		const struct kp_segment *s = &segments->segment[i];
		uint64_t start = s->offset & ~(page - 1);

		/* Two may share a page of the file: what starts there is the one that starts there. */
		if (start == file_offset) {
			found = s;
			break;
		}
		if (file_offset > start && file_offset < s->offset + s->bytes)
			found = s;
	}
	if (found)
		*ret = found->address + (file_offset - found->offset);
	return found;
}
