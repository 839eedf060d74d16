/*
 * One ELF file that is only read: a module's own, or a separate debug file. Opening checks what
 * the others rely on; the sections are read through libelf, which checks sizes against the file.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/rangemap.h"

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_elf_segment {
	uint64_t offset, size; /* in the file */
	uint64_t address;
	bool executable;
};

/* Open to its neighbours in this folder; only kp_elf_file_*() write it. */
struct kp_elf_file {
	char *path;
	Elf *elf;
	int fd; /* to be closed with it, or -1 */
	void *image; /* to be freed with it, or NULL */
	const uint8_t *build_id; /* NULL where there is none */
	size_t build_id_len;
	struct kp_elf_segment *segment; /* the PT_LOAD ones */
	size_t segment_count;
	struct kp_rangemap text; /* executable sections, or segments where there are no sections */
};

/*
 * path: opened if it is a regular file (devices and FIFOs that a damaged profile or debug link
 * may name are not even opened), O_CLOEXEC.
 */
int kp_elf_file_open(const char *path, struct kp_elf_file **ret, struct kp_err *err);

/*
 * The same, without a descriptor that stays open unless the file is larger than 64 MiB: it is read
 * whole. For files that are many.
 */
int kp_elf_file_open_whole(const char *path, struct kp_elf_file **ret, struct kp_err *err);

/* fd is borrowed and must stay open; path is for messages and for finding debug files. */
int kp_elf_file_open_fd(int fd, const char *path, struct kp_elf_file **ret, struct kp_err *err);

/* The image is copied. */
int kp_elf_file_open_image(const void *image, size_t size, const char *path,
			   struct kp_elf_file **ret, struct kp_err *err);

/*
 * A file packed with xz: libdw unpacks it whole, so the caller has made sure that it is not too
 * large. Where libdw was built without xz it is no ELF file.
 */
int kp_elf_file_open_packed(const void *packed, size_t size, const char *path,
			    struct kp_elf_file **ret, struct kp_err *err);
void kp_elf_file_destroy(struct kp_elf_file *file);

/* For _cleanup_. */
static inline void kp_elf_file_destroyp(struct kp_elf_file **file)
{
	kp_elf_file_destroy(*file);
}

/*
 * Offset in the file -> address, through the PT_LOAD segment that contains it: address = offset -
 * p_offset + p_vaddr (gABI, "Program Header"; linkers make the two differ).
 */
bool kp_elf_file_address(const struct kp_elf_file *file, uint64_t offset, uint64_t *ret);

/* Code may be at this address. */
bool kp_elf_file_is_text(const struct kp_elf_file *file, uint64_t address);

/* A section by name with its header, or NULL. */
Elf_Scn *kp_elf_file_section(const struct kp_elf_file *file, const char *name, GElf_Shdr *ret);

/* As open(O_RDONLY | O_CLOEXEC), but regular files only; -1 with errno. */
int kp_open_regular(const char *path);
