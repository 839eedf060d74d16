/*
 * What a stripped file has packed in itself (minidebug.h), and how large a packed stream is before
 * it is unpacked (xz.h). The fixtures are made as the GDB manual has it; streams come from xz.
 */
#include "tests/support/test.h"
#include "tests/unit/symbol/fixture.h"

#include "daemon/symbol/xz.h"

#include <gelf.h>
#include <stdio.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static const char *const function[] = { "local_one", "exported_first", "local_two",
					"exported_last" };
#define FUNCTIONS (sizeof(function) / sizeof(function[0]))

struct asked {
	char name[FUNCTIONS][64]; /* "" where there is none */
	char note[512];
};

/* The names at all functions of the unstripped fixture, from the bytes of a stripped one. */
static struct asked ask(const struct fixture *stripped)
{
	struct fixture full = fixture_open("local.so");
	struct asked ret = { 0 };
	char dir[256], path[512];
	struct kp_module_file file = { .path = path, .fd = -1 };
	struct question q;
	const char *note;

	fixture_make_dir(dir);
	snprintf(path, sizeof(path), "%s/lib.so", dir);
	fixture_copy(stripped, path);
	q = question_open(&file, NULL);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		uint64_t at = fixture_offset(&full, fixture_value(&full, function[i]));
		struct kp_frames frames = question_ask(&q, at);

		if (frames.count)
			snprintf(ret.name[i], sizeof(ret.name[i]), "%s", frames.frame[0].name);
	}
	note = kp_symbolizer_note(q.symbolizer, q.module);
	snprintf(ret.note, sizeof(ret.note), "%s", note ? note : "");
	question_close(&q);
	fixture_remove_tree(dir);
	return ret;
}

static void check_exported(const struct asked *asked, const char *note)
{
	cr_assert_str_eq(asked->name[0], "");
	cr_assert_str_eq(asked->name[1], "exported_first");
	cr_assert_str_eq(asked->name[2], "");
	cr_assert_str_eq(asked->name[3], "exported_last");
	cr_assert_not_null(strstr(asked->note, note), "the note is: %s", asked->note);
}

/* Where the section lies in the file. */
static unsigned char *packed_section(const struct fixture *f, size_t *ret_size)
{
	Elf *elf = elf_memory((char *)f->bytes, f->size);
	Elf_Scn *scn = NULL;
	unsigned char *ret = NULL;
	size_t strings;
	GElf_Shdr shdr;

	cr_assert_eq(elf_getshdrstrndx(elf, &strings), 0);
	while ((scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &shdr)) {
		if (strcmp(elf_strptr(elf, strings, shdr.sh_name), ".gnu_debugdata") == 0) {
			ret = f->bytes + shdr.sh_offset;
			*ret_size = shdr.sh_size;
		}
	}
	elf_end(elf);
	cr_assert_not_null(ret);
	return ret;
}

Test(minidebug, names_functions_that_are_not_exported_beside_those_that_are)
{
	struct fixture f = fixture_open("local-mini.so");
	struct asked asked = ask(&f);

	for (size_t i = 0; i < FUNCTIONS; i++)
		cr_assert_str_eq(asked.name[i], function[i]);
	cr_assert_str_eq(asked.note, "");
}

Test(minidebug, that_is_missing_leaves_the_exported_ones)
{
	struct fixture f = fixture_open("local-stripped.so");
	struct asked asked = ask(&f);

	check_exported(&asked, "only exported functions have names");
}

Test(minidebug, that_is_damaged_leaves_the_exported_ones_and_a_note)
{
	struct fixture f = fixture_open("local-mini.so");
	size_t size;
	unsigned char *section = packed_section(&f, &size);
	struct asked asked;

	section[0] ^= 1;
	asked = ask(&f);
	check_exported(&asked, ".gnu_debugdata");
	section[0] ^= 1;
	section[size / 2] ^= 1; /* found when it is unpacked */
	asked = ask(&f);
	check_exported(&asked, ".gnu_debugdata");
}

Test(minidebug, that_would_fill_the_memory_is_not_unpacked)
{
	struct fixture f = fixture_open("local-bomb.so");
	struct asked asked = ask(&f);
	struct rusage usage;

	check_exported(&asked, "larger than 128 MiB");
	cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
	cr_assert_lt((size_t)usage.ru_maxrss, 128 * MIB / 1024);
}

Test(minidebug, survives_whatever_damage)
{
	struct fixture f = fixture_open("local-mini.so");
	size_t size;
	unsigned char *section = packed_section(&f, &size);

	for (size_t i = 0; i < size; i += 5) {
		unsigned char was = section[i];

		section[i] = i % 2 ? 0xff : (unsigned char)~was;
		ask(&f);
		section[i] = was;
	}
}

/* What xz makes of size bytes, half of them easy to pack. Returns the packed size. */
static size_t pack(const char *options, size_t size, unsigned char **ret)
{
	char dir[256], command[1024], path[512];
	struct fixture packed;
	FILE *xz;

	fixture_make_dir(dir);
	snprintf(path, sizeof(path), "%s/packed", dir);
	snprintf(command, sizeof(command), "%s %s >%s", KP_TEST_XZ, options, path);
	xz = popen(command, "we");
	cr_assert_not_null(xz);
	for (size_t i = 0; i < size; i++)
		fputc(i / 70000 % 2 ? 'x' : (int)(i * 2654435761u >> 13), xz);
	cr_assert_eq(pclose(xz), 0);
	packed = fixture_open_path(path);
	fixture_remove_tree(dir);
	*ret = packed.bytes;
	return packed.size;
}

Test(xz, is_measured_without_unpacking)
{
	static const char *const options[] = {
		"-0",
		"-9",
		"--check=none",
		"--check=crc32",
		"--check=sha256",
		"--block-size=100000",
		"-T2",
		"-T2 --block-size=100000",
	};
	static const size_t sizes[] = { 0, 1, 65536, 3 * MIB + 17 };

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			unsigned char *packed;
			size_t packed_size = pack(options[i], sizes[j], &packed), size = 99;
			struct kp_err err = { 0 };

			cr_assert_eq(kp_xz_unpacked_size(packed, packed_size, 4 * MIB, &size, &err),
				     0, "%s: %s", options[i], err.text);
			cr_assert_eq(size, sizes[j], "%s: %zu, not %zu", options[i], size,
				     sizes[j]);
			if (sizes[j] > 1)
				cr_assert_lt(kp_xz_unpacked_size(packed, packed_size, sizes[j] - 1,
								 &size, &err),
					     0);
			free(packed);
		}
	}
}

Test(xz, of_another_kind_is_turned_down)
{
	unsigned char *packed;
	struct kp_err err;
	size_t size, n = pack("--x86 --lzma2", 1000, &packed);

	cr_assert_lt(kp_xz_unpacked_size(packed, n, MIB, &size, &err), 0);
	free(packed);
	n = pack("--lzma2=dict=128MiB", 1000, &packed);
	cr_assert_lt(kp_xz_unpacked_size(packed, n, MIB, &size, &err), 0);
	free(packed);
	n = pack("--format=lzma", 1000, &packed);
	cr_assert_lt(kp_xz_unpacked_size(packed, n, MIB, &size, &err), 0);
	free(packed);
}

Test(xz, that_is_cut_is_turned_down_or_measured_up_to_its_last_block)
{
	unsigned char *packed, *cut;
	size_t n = pack("--block-size=100000", 250000, &packed), size;
	struct kp_err err;

	for (size_t i = 0; i < n; i += i < 64 ? 1 : 97) {
		cut = malloc(i ? i : 1); /* of its own, so that valgrind sees a step too far */
		memcpy(cut, packed, i);
		if (kp_xz_unpacked_size(cut, i, MIB, &size, &err) == 0)
			cr_assert_leq(size, 250000);
		free(cut);
	}
	free(packed);
}
