/*
 * Notes of an ELF file or image, in its PT_NOTE segments (ELF gABI "Note Section"): the GNU build id
 * (type 3, owner "GNU"), and Go's (type 4, owner "Go": cmd/link/internal/ld/elf.go). The file is the target's: every number in it is checked. 64-bit
 * little-endian only, as all our targets are.
 */
#include "daemon/linux/maps.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#define NOTES_MAX 65536u /* bytes of notes looked at; real ones are some hundred */
#define PHNUM_MAX 256u

/* Where bytes come from: a file or memory. Copies n bytes at offset; false if it cannot. */
struct source {
	int fd;
	const uint8_t *image;
	size_t size;
};

static bool get(const struct source *s, uint64_t offset, void *ret, size_t n)
{
	if (s->image) {
		if (offset > s->size || n > s->size - offset)
			return false;
		memcpy(ret, s->image + offset, n);
		return true;
	}
	return offset <= INT64_MAX && pread(s->fd, ret, n, (off_t)offset) == (ssize_t)n;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

struct wanted {
	uint32_t type;
	char owner[4]; /* with its NUL and padding */
};

/* The first bytes of that note among size bytes of notes at offset; 0 if it is not there. */
static size_t search_notes(const struct source *s, const struct wanted *wanted, uint64_t offset,
			   uint64_t size, uint64_t align, uint8_t *ret, size_t room)
{
	uint64_t end = offset + (size < NOTES_MAX ? size : NOTES_MAX);

	while (offset < end) {
		Elf64_Nhdr note;
		uint64_t desc;
		char owner[4];

		if (!get(s, offset, &note, sizeof(note)))
			return 0;
		desc = align_up(offset + sizeof(note) + note.n_namesz, align);
		if (note.n_type == wanted->type && note.n_namesz == 4 &&
		    get(s, offset + sizeof(note), owner, 4) &&
		    memcmp(owner, wanted->owner, 4) == 0) {
			size_t n = note.n_descsz < room ? note.n_descsz : room;

			return get(s, desc, ret, n) ? n : 0;
		}
		offset = align_up(desc + note.n_descsz, align);
	}
	return 0;
}

static size_t search(const struct source *s, const struct wanted *wanted, uint8_t *ret, size_t room)
{
	Elf64_Ehdr ehdr;

	if (!get(s, 0, &ehdr, sizeof(ehdr)) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_phentsize != sizeof(Elf64_Phdr) || ehdr.e_phnum > PHNUM_MAX)
		return 0;
	for (unsigned i = 0; i < ehdr.e_phnum; i++) {
		Elf64_Phdr phdr;
		size_t n;

		if (!get(s, ehdr.e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
			return 0;
		if (phdr.p_type != PT_NOTE)
			continue;
		n = search_notes(s, wanted, phdr.p_offset, phdr.p_filesz, phdr.p_align == 8 ? 8 : 4,
				 ret, room);
		if (n)
			return n;
	}
	return 0;
}

static const struct wanted build_id = { NT_GNU_BUILD_ID, "GNU" };

size_t kp_build_id_read(int fd, uint8_t *ret, size_t size)
{
	return search(&(struct source){ .fd = fd }, &build_id, ret, size);
}

size_t kp_build_id_of_image(const void *image, size_t image_size, uint8_t *ret, size_t size)
{
	return search(&(struct source){ .fd = -1, .image = image, .size = image_size }, &build_id,
		      ret, size);
}

bool kp_is_go_program(int fd)
{
	static const struct wanted go = { 4, "Go\0" };
	uint8_t first;

	return search(&(struct source){ .fd = fd }, &go, &first, 1) > 0;
}
