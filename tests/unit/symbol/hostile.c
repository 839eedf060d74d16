/*
 * Damaged files: whatever is in them, the symbolizer answers or says why not, and neither crashes
 * nor hangs (the meson timeout is the judge). The damage is the same in each run.
 */
#include "tests/support/test.h"
#include "tests/unit/symbol/elfwriter.h"
#include "tests/unit/symbol/fixture.h"

#define ASKED 64

/* Answers are only looked at for being well formed. */
static void ask_everywhere(const void *image, size_t size)
{
	struct kp_module_file file = {
		.path = "[image]", .fd = -1, .image = image, .image_size = size
	};
	struct question q = question_open(&file, NULL);
	struct kp_frames frames[ASKED];
	uint64_t offset[ASKED];

	for (unsigned i = 0; i < ASKED; i++)
		offset[i] = i * (size + 0x1000) / ASKED;
	cr_assert_eq(kp_symbolizer_resolve(q.symbolizer, q.module, offset, ASKED, frames, NULL), 0);
	for (unsigned i = 0; i < ASKED; i++) {
		for (uint32_t j = 0; j < frames[i].count; j++) {
			cr_assert_not_null(frames[i].frame[j].name);
			cr_assert_not_null(frames[i].frame[j].system_name);
			cr_assert_eq(frames[i].frame[j].inlined, j + 1 < frames[i].count);
		}
	}
	question_close(&q);
}

/* What a header may claim: within the file, at its end, beyond, and beyond all reason. */
static const uint64_t lie[] = {
	0, 1, 0x3fff, 0x4000, 1ull << 40, UINT64_MAX - 7, UINT64_MAX,
};
#define LIES (sizeof(lie) / sizeof(lie[0]))

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static void cut_everywhere(const char *name)
{
	struct fixture f = fixture_open(name);

	for (size_t size = 0; size < f.size; size += 97)
		ask_everywhere(f.bytes, size);
}

static void damage(const char *name, unsigned rounds)
{
	struct fixture f = fixture_open(name);
	unsigned char *bytes = malloc(f.size);
	uint32_t seed = 1;

	for (unsigned round = 0; round < rounds; round++) {
		memcpy(bytes, f.bytes, f.size);
		for (uint32_t n = 1 + next_random(&seed) % 24; n > 0; n--) {
			uint32_t at = next_random(&seed) % f.size;

			bytes[at] =
				next_random(&seed) % 4 ? (unsigned char)next_random(&seed) : 0xff;
		}
		ask_everywhere(bytes, f.size);
	}
	free(bytes);
}

Test(hostile, survives_files_cut_anywhere)
{
	cut_everywhere("inline-dwarf5.so");
	cut_everywhere("inline-compressed.so");
}

Test(hostile, survives_damaged_bytes)
{
	damage("inline-dwarf5.so", 400);
	damage("inline-dwarf4.so", 400);
	damage("inline-compressed.so", 200);
	damage("names.so", 400);
}

Test(hostile, survives_lying_section_headers)
{
	static const struct elfwriter_symbol symbol[] = {
		{ "function", ELFWRITER_TEXT + 0x10, 0x10, STB_GLOBAL, STT_FUNC, 0 },
	};

	for (unsigned section = 0; section < ELFWRITER_SECTIONS; section++) {
		for (unsigned i = 0; i < LIES; i++) {
			for (unsigned field = 0; field < sizeof(Elf64_Shdr) / 8; field++) {
				struct elfwriter_image image;

				elfwriter_write(symbol, 1, NULL, &image);
				memcpy((char *)elfwriter_section(&image, section) + 8 * field,
				       &lie[i], 8);
				ask_everywhere(image.bytes, image.size);
			}
		}
	}
}

Test(hostile, survives_lying_program_headers)
{
	static const uint8_t id[20] = { 1 };

	for (unsigned i = 0; i < LIES; i++) {
		for (unsigned field = 0; field < 2 * sizeof(Elf64_Phdr) / 8; field++) {
			struct elfwriter_image image;

			elfwriter_write(NULL, 0, id, &image);
			memcpy(image.bytes + sizeof(Elf64_Ehdr) + 8 * field, &lie[i], 8);
			ask_everywhere(image.bytes, image.size);
		}
	}
}
