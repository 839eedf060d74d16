/*
 * ELF files, opened and measured: see elffile.h. Runs in the daemon. Reads program headers, notes
 * and section headers; symbols and DWARF are others' business.
 */
#include "daemon/symbol/elffile.h"

#include "common/cleanup.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * Smaller files are read with pread(): one that is truncated while we read gives an error. Larger
 * ones are mapped, where the same gives SIGBUS, because gigabytes of debug information on our heap
 * would hurt the host more surely.
 */
#define READ_MAX ((off_t)512 << 20)

/* What is read whole is not larger than this: debug information may name any file. */
#define WHOLE_MAX ((off_t)64 << 20)

/* A linker makes about ten; each look-up goes through all of them. */
#define SEGMENT_MAX 1024

int kp_open_regular(const char *path)
{
	_cleanup_(kp_closep) int fd = -1;
	struct stat st;

	if (stat(path, &st) < 0)
		return -1;
	if (S_ISREG(st.st_mode))
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	else
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	return kp_take_fd(&fd);
}

void kp_elf_file_destroy(struct kp_elf_file *file)
{
	if (!file)
		return;
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	free(file->image);
	free(file->segment);
	kp_rangemap_deinit(&file->text);
	free(file->path);
	free(file);
}

/* The GNU build id, if it is among these notes. */
static void read_notes(struct kp_elf_file *file, Elf_Data *data)
{
	size_t at = 0, next, name_at, desc_at;
	GElf_Nhdr note;

	while (data && (next = gelf_getnote(data, at, &note, &name_at, &desc_at)) > at) {
		const char *bytes = data->d_buf;

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(bytes + name_at, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0) {
			file->build_id = (const uint8_t *)bytes + desc_at;
			file->build_id_len = note.n_descsz;
			return;
		}
		at = next;
	}
}

static void read_segment_notes(struct kp_elf_file *file, const GElf_Phdr *phdr)
{
	Elf_Type type = phdr->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;

	read_notes(file, elf_getdata_rawchunk(file->elf, phdr->p_offset, phdr->p_filesz, type));
}

/* Debug files need not have program headers; those of dwz have none. */
static void read_section_notes(struct kp_elf_file *file)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while (!file->build_id && (scn = elf_nextscn(file->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_NOTE)
			read_notes(file, elf_getdata(scn, NULL));
}

static int read_segments(struct kp_elf_file *file, struct kp_err *err)
{
	size_t count;

	if (elf_getphdrnum(file->elf, &count) < 0)
		return kp_fail(err, KP_EBADDATA, "%s: damaged program headers: %s", file->path,
			       elf_errmsg(-1));
	file->segment = calloc(count ? count : 1, sizeof(*file->segment));
	if (!file->segment)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(file->elf, (int)i, &phdr))
			return kp_fail(err, KP_EBADDATA, "%s: damaged program header %zu: %s",
				       file->path, i, elf_errmsg(-1));
		if (phdr.p_type == PT_LOAD && file->segment_count < SEGMENT_MAX)
			file->segment[file->segment_count++] = (struct kp_elf_segment){
				.offset = phdr.p_offset,
				.size = phdr.p_filesz,
				.address = phdr.p_vaddr,
				.executable = phdr.p_flags & PF_X,
			};
		if (phdr.p_type == PT_NOTE && !file->build_id)
			read_segment_notes(file, &phdr);
	}
	read_section_notes(file);
	return 0;
}

static int add_text(struct kp_elf_file *file, uint64_t start, uint64_t size, struct kp_err *err)
{
	struct kp_range range = { .start = start, .end = start + size };

	return kp_rangemap_add(&file->text, &range, err); /* leaves out what wraps around */
}

static int read_text(struct kp_elf_file *file, struct kp_err *err)
{
	Elf_Scn *scn = NULL;
	int r = 0;

	while (r == 0 && (scn = elf_nextscn(file->elf, scn))) {
		GElf_Shdr shdr;

		if (gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_EXECINSTR) &&
		    (shdr.sh_flags & SHF_ALLOC))
			r = add_text(file, shdr.sh_addr, shdr.sh_size, err);
	}
	if (file->text.count == 0)
		for (size_t i = 0; r == 0 && i < file->segment_count; i++)
			if (file->segment[i].executable)
				r = add_text(file, file->segment[i].address, file->segment[i].size,
					     err);
	return r < 0 ? r : kp_rangemap_finish(&file->text, err);
}

/* Checks an opened ELF and reads what struct kp_elf_file promises. Takes file in any case. */
static int finish(struct kp_elf_file *file, struct kp_elf_file **ret, struct kp_err *err)
{
	_cleanup_(kp_elf_file_destroyp) struct kp_elf_file *owner = file;
	int r;

	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		return kp_fail(err, KP_EBADDATA, "%s: not an ELF file", file->path);
	r = read_segments(file, err);
	if (r == 0)
		r = read_text(file, err);
	if (r < 0)
		return r;
	*ret = kp_take(owner);
	return 0;
}

static struct kp_elf_file *start(const char *path)
{
	struct kp_elf_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fd = -1;
	file->path = strdup(path);
	if (!file->path) {
		free(file);
		return NULL;
	}
	elf_version(EV_CURRENT);
	return file;
}

static off_t size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : st.st_size;
}

static Elf *begin(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	return elf_begin(fd, st.st_size > READ_MAX ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
}

static int open_path(const char *path, bool whole, struct kp_elf_file **ret, struct kp_err *err)
{
	struct kp_elf_file *file = start(path);

	if (!file)
		return kp_fail_nomem(err);
	file->fd = kp_open_regular(path);
	if (file->fd < 0) {
		int r = kp_fail_errno(err, "%s", path);

		kp_elf_file_destroy(file);
		return r;
	}
	file->elf = begin(file->fd);
	/* before a section is read: libelf would forget what it has read of it */
	if (whole && file->elf && size_of(file->fd) <= WHOLE_MAX &&
	    elf_cntl(file->elf, ELF_C_FDREAD) == 0) {
		close(file->fd);
		file->fd = -1;
	}
	return finish(file, ret, err);
}

int kp_elf_file_open(const char *path, struct kp_elf_file **ret, struct kp_err *err)
{
	return open_path(path, false, ret, err);
}

int kp_elf_file_open_whole(const char *path, struct kp_elf_file **ret, struct kp_err *err)
{
	return open_path(path, true, ret, err);
}

int kp_elf_file_open_fd(int fd, const char *path, struct kp_elf_file **ret, struct kp_err *err)
{
	struct kp_elf_file *file = start(path);

	if (!file)
		return kp_fail_nomem(err);
	file->elf = begin(fd);
	return finish(file, ret, err);
}

int kp_elf_file_open_image(const void *image, size_t size, const char *path,
			   struct kp_elf_file **ret, struct kp_err *err)
{
	struct kp_elf_file *file = start(path);

	if (!file)
		return kp_fail_nomem(err);
	file->image = malloc(size ? size : 1); /* libelf wants it aligned and may write */
	if (!file->image) {
		kp_elf_file_destroy(file);
		return kp_fail_nomem(err);
	}
	if (size)
		memcpy(file->image, image, size);
	file->elf = elf_memory(file->image, size);
	return finish(file, ret, err);
}

/* -1: with errno. */
static int file_in_memory(const void *bytes, size_t size)
{
	_cleanup_(kp_closep) int fd = memfd_create("kitprof-unpack", MFD_CLOEXEC);

	for (size_t at = 0; fd >= 0 && at < size;) {
		ssize_t n = write(fd, (const char *)bytes + at, size - at);

		if (n < 0)
			return -1;
		at += (size_t)n;
	}
	return kp_take_fd(&fd);
}

int kp_elf_file_open_packed(const void *packed, size_t size, const char *path,
			    struct kp_elf_file **ret, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = file_in_memory(packed, size);
	struct kp_elf_file *file;

	if (fd < 0)
		return kp_fail_errno(err, "%s: cannot be unpacked in memory", path);
	file = start(path);
	if (!file)
		return kp_fail_nomem(err);
	file->elf = dwelf_elf_begin(fd); /* keeps what it has unpacked, not the descriptor */
	return finish(file, ret, err);
}

bool kp_elf_file_address(const struct kp_elf_file *file, uint64_t offset, uint64_t *ret)
{
	const struct kp_elf_segment *found = NULL;

	for (size_t i = 0; i < file->segment_count; i++) {
		const struct kp_elf_segment *s = &file->segment[i];

		if (offset < s->offset || offset - s->offset >= s->size)
			continue;
		if (!found || (s->executable && !found->executable))
			found = s;
	}
	if (!found)
		return false;
	*ret = offset - found->offset + found->address;
	return true;
}

bool kp_elf_file_is_text(const struct kp_elf_file *file, uint64_t address)
{
	uint32_t unused;

	return kp_rangemap_find(&file->text, address, &unused);
}

Elf_Scn *kp_elf_file_section(const struct kp_elf_file *file, const char *name, GElf_Shdr *ret)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(file->elf, &strings) < 0)
		return NULL;
	while ((scn = elf_nextscn(file->elf, scn))) {
		const char *found;

		if (!gelf_getshdr(scn, ret))
			continue;
		found = elf_strptr(file->elf, strings, ret->sh_name);
		if (found && strcmp(found, name) == 0)
			return scn;
	}
	return NULL;
}
