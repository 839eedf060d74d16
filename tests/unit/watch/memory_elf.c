/*
 * Modules read back from memory (daemon/watch/memory_elf.h): those of this process, against what their
 * files say; and ones whose memory says something else.
 */
#include "daemon/watch/memory_elf.h"

#include "common/cleanup.h"
#include "daemon/symbol/symbolizer.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct image {
	void *bytes;
	size_t size;
	uint64_t start, offset; /* of the executable mapping */
	int result;
};

/* Of the module that has the address. */
static struct image read_image(const void *address)
{
	struct kp_maps maps;
	const struct kp_map *map;
	struct image image = { 0 };
	struct kp_err err;

	cr_assert_eq(kp_maps_init(&maps, getpid(), 0, &err), 0);
	map = kp_maps_find(&maps, (uint64_t)(uintptr_t)address);
	cr_assert_not_null(map);
	image.start = map->start;
	image.offset = map->offset;
	image.result = kp_memory_elf_read(getpid(), &maps, map, &image.bytes, &image.size, &err);
	kp_maps_deinit(&maps);
	return image;
}

/* The name at the address by the image alone. */
static void name_at(const struct image *image, const void *address, char ret[64])
{
	struct kp_module_file file = {
		.path = "[image]", .fd = -1, .image = image->bytes, .image_size = image->size
	};
	uint64_t offset = (uint64_t)(uintptr_t)address - image->start + image->offset;
	struct kp_symbolizer *s;
	struct kp_frames frames;
	uint32_t module;

	cr_assert_eq(kp_symbolizer_create(NULL, &s, NULL), 0);
	cr_assert_eq(kp_symbolizer_module(s, &file, &module, NULL), 0);
	cr_assert_eq(kp_symbolizer_resolve(s, module, &offset, 1, &frames, NULL), 0);
	snprintf(ret, 64, "%s", frames.count ? frames.frame[0].system_name : "");
	kp_symbolizer_destroy(s);
}

Test(memory_elf, has_the_exported_functions_and_the_build_id)
{
	void *zlib = dlopen("libz.so.1", RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);
	const struct {
		void *library;
		const char *name;
	} function[] = {
		{ zlib, "inflate" }, { zlib, "deflate" }, { zlib, "gzopen" },
		{ libc, "qsort" },   { libc, "mkdtemp" }, { libc, "strtok" },
	};

	for (size_t i = 0; i < sizeof(function) / sizeof(function[0]); i++) {
		void *address = dlsym(function[i].library, function[i].name);
		struct image image = read_image(address);
		uint8_t in_file[64], in_image[64];
		char name[64];
		Dl_info info;
		int fd;

		cr_assert_eq(image.result, 0);
		name_at(&image, (char *)address + 1, name);
		cr_assert_str_eq(name, function[i].name);
		cr_assert_neq(dladdr(address, &info), 0);
		fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
		cr_assert_eq(kp_build_id_read(fd, in_file, sizeof(in_file)), 20);
		cr_assert_eq(
			kp_build_id_of_image(image.bytes, image.size, in_image, sizeof(in_image)),
			20);
		cr_assert_eq(memcmp(in_file, in_image, 20), 0);
		close(fd);
		free(image.bytes);
	}
}

/* A library's segments, mapped as a loader does, but from a file without a name. */
struct loaded {
	char *base;
	size_t size;
	char *text;
};

static struct loaded load(const unsigned char *bytes, size_t size, const Elf64_Ehdr *ehdr,
			  const Elf64_Phdr *phdr)
{
	int fd = memfd_create("library", MFD_CLOEXEC);
	struct loaded l = { .size = 8 << 20 };

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	l.base = mmap(NULL, l.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < ehdr->e_phnum; i++) {
		size_t in_page = phdr[i].p_vaddr & 4095;
		int prot = phdr[i].p_flags & PF_X ? PROT_READ | PROT_EXEC : PROT_READ;
		char *at = l.base + phdr[i].p_vaddr - in_page;

		if (phdr[i].p_type != PT_LOAD)
			continue;
		cr_assert_eq(mmap(at, phdr[i].p_filesz + in_page, prot, MAP_PRIVATE | MAP_FIXED, fd,
				  (off_t)(phdr[i].p_offset - in_page)),
			     at);
		if (phdr[i].p_flags & PF_X)
			l.text = at;
	}
	close(fd);
	return l;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* The same damage in each run: in the headers, then everywhere. */
Test(memory_elf, believes_no_number_in_memory)
{
	static unsigned char good[1 << 20], bad[1 << 20];
	Elf64_Phdr phdr[64];
	Elf64_Ehdr ehdr;
	uint32_t seed = 5;
	unsigned whole = 0;
	Dl_info info;
	ssize_t size;
	int fd;

	cr_assert_neq(dladdr(dlsym(dlopen("libz.so.1", RTLD_NOW), "inflate"), &info), 0);
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	size = read(fd, good, sizeof(good));
	close(fd);
	cr_assert_gt(size, 4096);
	memcpy(&ehdr, good, sizeof(ehdr));
	memcpy(phdr, good + ehdr.e_phoff, ehdr.e_phnum * sizeof(phdr[0]));
	for (unsigned round = 0; round < 400; round++) {
		uint32_t within = round % 2 ? 4096 : (uint32_t)size;
		struct loaded loaded;
		struct image image;
		char name[64];

		memcpy(bad, good, (size_t)size);
		for (uint32_t n = next_random(&seed) % 24 * (round > 0); n > 0; n--)
			bad[next_random(&seed) % within] = (unsigned char)next_random(&seed);
		loaded = load(bad, (size_t)size, &ehdr, phdr);
		image = read_image(loaded.text);
		if (image.result == 0) {
			cr_assert_leq(image.size, KP_MEMORY_ELF_MAX);
			name_at(&image, loaded.text, name);
			whole++;
		}
		free(image.bytes);
		munmap(loaded.base, loaded.size);
	}
	cr_assert_gt(whole, 100);
}

Test(memory_elf, is_none_where_there_is_no_elf_file)
{
	int fd = memfd_create("code", MFD_CLOEXEC);
	struct image image;
	void *code;

	cr_assert_eq(ftruncate(fd, 8192), 0);
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	image = read_image(code);
	cr_assert_eq(image.result, KP_MEMORY_ELF_NONE);
	munmap(code, 8192);
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
	image = read_image(code);
	cr_assert_eq(image.result, KP_MEMORY_ELF_NONE);
	close(fd);
}
