/*
 * Files that are cut, flipped or made to hurt. Nothing is expected of them but an answer, soon;
 * under the sanitizers, that no byte outside the file is read. Files are malloc()ed to their size.
 */
#include "tests/support/test.h"
#include "tests/unit/unwind/framewriter.h"

#include "common/cleanup.h"

#include <dwarf.h>
#include <time.h>

#define START BYTES(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1)
#define ALL_PARTS (FRAMEWRITER_SECTIONS | FRAMEWRITER_EH_FRAME_HDR)

/* One of everything that the parser knows. */
static void write_sample(struct framewriter *w)
{
	size_t cie = framewriter_cie(w, START), signal = framewriter_signal_cie(w, START);

	w->machine = EM_X86_64;
	framewriter_fde(w, cie, 0x100, 0x80,
			BYTES(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6,
			      2, DW_CFA_advance_loc1, 3, DW_CFA_def_cfa_register, 6,
			      DW_CFA_remember_state, DW_CFA_advance_loc2, 3, 0, DW_CFA_def_cfa, 7,
			      8, DW_CFA_advance_loc4, 3, 0, 0, 0, DW_CFA_restore_state));
	framewriter_fde(w, cie, 0x200, 0x80,
			BYTES(DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0,
			      DW_OP_lit15, DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl,
			      DW_OP_plus));
	framewriter_fde(w, signal, 0x300, 0x80,
			BYTES(DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 1, DW_OP_deref,
			      DW_CFA_expression, 16, 3, DW_OP_breg7, 0xa8, 1));
	framewriter_u32(w, 0);
}

static int build(const uint8_t *file, size_t size)
{
	_cleanup_(kp_freep) void *table = NULL;
	struct kp_unwind_stats stats;
	struct kp_table opened;
	struct kp_err err = { 0 };
	size_t bytes;
	int r = kp_unwind_build(file, size, "test", &table, &bytes, &stats, &err);

	if (r < 0)
		cr_assert_gt(strlen(err.text), 0);
	if (r == 0)
		cr_assert_eq(kp_table_open(&opened, table, bytes,
					   ((const struct kp_table_head *)table)->machine),
			     0);
	return r;
}

static void cut_everywhere(unsigned parts)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	size_t size;

	write_sample(&w);
	file = framewriter_file(&w, parts, &size);
	cr_assert_eq(build(file, size), 0);
	for (size_t n = 0; n < size; n++) {
		_cleanup_(kp_freep) uint8_t *cut = malloc(n ? n : 1);

		memcpy(cut, file, n);
		build(cut, n);
	}
}

Test(hostile, cut_at_every_length)
{
	cut_everywhere(FRAMEWRITER_SECTIONS);
	cut_everywhere(FRAMEWRITER_EH_FRAME_HDR);
}

static void flip_everything(const struct framewriter *w, unsigned parts)
{
	static const uint8_t flips[] = { 0xff, 0x01, 0x80, 0x7f };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	size_t size;

	file = framewriter_file(w, parts, &size);
	for (size_t n = 0; n < size; n++) {
		for (size_t i = 0; i < sizeof(flips); i++) {
			file[n] ^= flips[i];
			build(file, size);
			file[n] ^= flips[i];
		}
	}
}

Test(hostile, each_byte_flipped)
{
	struct framewriter w = { .machine = EM_X86_64 };

	write_sample(&w);
	flip_everything(&w, FRAMEWRITER_SECTIONS);
	flip_everything(&w, FRAMEWRITER_EH_FRAME_HDR);
	flip_everything(&w, FRAMEWRITER_SECTIONS | FRAMEWRITER_DEBUG | FRAMEWRITER_COMPRESSED);
}

Test(hostile, no_elf_file_at_all)
{
	struct framewriter w = { .machine = EM_386 };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	size_t size;

	write_sample(&w);
	w.machine = EM_386;
	file = framewriter_file(&w, ALL_PARTS, &size);
	cr_assert_eq(build(file, size), -KP_EBADDATA);
	cr_assert_eq(build((const uint8_t *)"", 0), -KP_EBADDATA);
	cr_assert_eq(build((const uint8_t *)"#!/bin/sh\n", 10), -KP_EBADDATA);
}

Test(hostile, code_all_over_the_address_space)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	Elf64_Phdr *phdr;
	size_t size;

	write_sample(&w);
	file = framewriter_file(&w, ALL_PARTS, &size);
	phdr = (Elf64_Phdr *)(file + sizeof(Elf64_Ehdr));
	phdr[0].p_memsz = UINT64_C(1) << 40;
	cr_assert_eq(build(file, size), -KP_EBADDATA);
	phdr[0].p_memsz = UINT64_MAX;
	cr_assert_eq(build(file, size), -KP_EBADDATA);
	phdr[0].p_memsz = UINT64_C(1) << 32;
	phdr[0].p_vaddr = 0 - phdr[0].p_memsz - 1;
	cr_assert_eq(build(file, size), KP_UNWIND_NONE); /* nothing of it is described */
}

Test(hostile, more_segments_than_there_are)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	size_t size;

	write_sample(&w);
	file = framewriter_file(&w, ALL_PARTS, &size);
	((Elf64_Ehdr *)file)->e_phnum = UINT16_MAX;
	cr_assert_eq(build(file, size), -KP_EBADDATA);
	((Elf64_Ehdr *)file)->e_phnum = 5;
	((Elf64_Ehdr *)file)->e_phoff = UINT64_MAX - 8;
	cr_assert_eq(build(file, size), -KP_EBADDATA);
}

/* Sections that cannot be are as good as none. */
Test(hostile, sections_that_are_not_there)
{
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL;
	Elf64_Ehdr *header;
	Elf64_Shdr *shdr;
	size_t size;

	write_sample(&w);
	file = framewriter_file(&w, ALL_PARTS, &size);
	header = (Elf64_Ehdr *)file;
	shdr = (Elf64_Shdr *)(file + header->e_shoff);
	shdr[2].sh_size = UINT64_MAX;
	cr_assert_eq(build(file, size), 0);
	shdr[2].sh_offset = UINT64_MAX - 4;
	cr_assert_eq(build(file, size), 0);
	header->e_shnum = 0; /* the number is in section 0 */
	shdr[0].sh_size = UINT64_MAX;
	cr_assert_eq(build(file, size), 0);
	header->e_shstrndx = SHN_XINDEX;
	shdr[0].sh_size = 5;
	shdr[0].sh_link = UINT32_MAX;
	cr_assert_eq(build(file, size), 0);
	header->e_shoff = size - 1;
	cr_assert_eq(build(file, size), 0);
}

static void expect_stats(const struct framewriter *w, uint32_t fdes, uint32_t bad)
{
	_cleanup_(framewriter_table_deinit) struct framewriter_table table;

	framewriter_build(w, FRAMEWRITER_SECTIONS, &table);
	if (fdes == 0) {
		cr_assert_eq(table.r, KP_UNWIND_NONE);
		return;
	}
	cr_assert_eq(table.stats.fdes, fdes);
	cr_assert_eq(table.stats.bad_fdes, bad);
}

Test(hostile, lengths_that_lie)
{
	static const uint32_t lengths[] = { 0xffffffff, 0xfffffff0, 0x7fffffff, 0x1000, 1, 2, 3 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct framewriter w = { .machine = EM_X86_64 };
		size_t cie = framewriter_cie(&w, START);

		framewriter_fde(&w, cie, 0x100, 0x100, NO_BYTES);
		framewriter_u32(&w, lengths[i]);
		framewriter_put(&w, BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f));
		expect_stats(&w, 1, lengths[i] < 4 ? 2 : 1);
	}
}

Test(hostile, fdes_whose_cie_is_none)
{
	struct framewriter w = { .machine = EM_X86_64 };
	size_t cie = framewriter_cie(&w, START), fde, last;
	uint32_t delta;

	fde = framewriter_fde(&w, cie, 0x100, 0x100, NO_BYTES);
	last = framewriter_fde(&w, fde, 0x200, 0x100, NO_BYTES); /* an FDE */
	framewriter_fde(&w, last, 0x300, 0x100, NO_BYTES);
	framewriter_fde(&w, cie + 4, 0x400, 0x100, NO_BYTES); /* into a CIE */
	last = framewriter_fde(&w, cie, 0x500, 0x100, NO_BYTES);
	delta = 4; /* itself */
	memcpy(w.data + last + 4, &delta, sizeof(delta));
	last = framewriter_fde(&w, cie, 0x600, 0x100, NO_BYTES);
	delta = 0x80000000; /* before the section */
	memcpy(w.data + last + 4, &delta, sizeof(delta));
	expect_stats(&w, 1, 5);
}

Test(hostile, cies_that_are_cut)
{
	struct framewriter w = { .machine = EM_X86_64 };
	size_t cie = framewriter_cie(&w, START), whole = w.size;

	for (uint32_t length = 4; length < whole - cie - 4; length++) {
		struct framewriter cut = { .machine = EM_X86_64 };
		_cleanup_(framewriter_table_deinit) struct framewriter_table table;

		memcpy(cut.data, &length, sizeof(length));
		memcpy(cut.data + 4, w.data + 4, length);
		cut.size = 4 + length;
		framewriter_fde(&cut, 0, 0x100, 0x100, NO_BYTES);
		framewriter_build(&cut, FRAMEWRITER_SECTIONS, &table);
		if (length < 13) /* up to the augmentation data */
			cr_assert_eq(table.r, KP_UNWIND_NONE);
	}
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/*
 * What a CIE says is not to be executed for each of its FDEs anew: it would be some 10^11 steps
 * here. The bound is far above what it takes otherwise.
 */
Test(hostile, long_programs_are_read_once)
{
	enum { SIZE = 4 << 20, PART = SIZE / 2 };
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL, *big = calloc(1, SIZE);
	size_t size, cie = framewriter_cie(&w, START);
	double start;
	uint32_t length;
	Elf64_Shdr *shdr;

	framewriter_fde(&w, cie, 0x100, FRAMEWRITER_CODE_SIZE - 0x100, NO_BYTES);
	file = framewriter_file(&w, FRAMEWRITER_SECTIONS, &size);
	cr_assert_lt(size, PART);
	memcpy(big, file, size);
	/* The same entries at the end of the file, the first with a long tail of nops. */
	memcpy(big + size, w.data, cie + 20);
	length = PART;
	memcpy(big + size, &length, sizeof(length));
	for (size_t at = size + 4 + PART; at + 24 < SIZE; at += 20) {
		uint32_t fde[5] = {
			16, (uint32_t)(at + 4 - size),
			(uint32_t)(FRAMEWRITER_CODE - FRAMEWRITER_FRAMES - (at + 8 - size)), 1, 0
		};

		fde[2] += (uint32_t)(at % 0x1000);
		memcpy(big + at, fde, sizeof(fde));
	}
	shdr = (Elf64_Shdr *)(big + ((Elf64_Ehdr *)big)->e_shoff);
	shdr[2].sh_offset = size;
	shdr[2].sh_size = SIZE - size;
	start = seconds();
	cr_assert_eq(build(big, SIZE), 0);
	cr_assert_lt(seconds() - start, 10);
}

Test(hostile, more_rules_than_the_table_has_numbers_for)
{
	enum { ROWS = 70000, PROGRAM = ROWS * 6 };
	struct framewriter w = { .machine = EM_X86_64 };
	_cleanup_(kp_freep) uint8_t *file = NULL, *big = NULL;
	_cleanup_(kp_freep) void *table = NULL;
	struct kp_unwind_stats stats;
	struct kp_err err;
	size_t size, bytes, at, fde, cie = framewriter_cie(&w, START);
	uint32_t length;
	Elf64_Shdr *shdr;

	fde = framewriter_fde(&w, cie, 0, FRAMEWRITER_CODE_SIZE, NO_BYTES);
	file = framewriter_file(&w, FRAMEWRITER_SECTIONS, &size);
	big = calloc(1, size + w.size + PROGRAM);
	memcpy(big, file, size);
	memcpy(big + size, w.data, w.size);
	length = (uint32_t)(w.size - fde - 4 + PROGRAM);
	memcpy(big + size + fde, &length, sizeof(length));
	at = size + w.size;
	for (uint32_t i = 0; i < ROWS; i++, at += 6)
		memcpy(big + at,
		       ((uint8_t[]){ DW_CFA_def_cfa_offset, (uint8_t)(i | 0x80),
				     (uint8_t)(i >> 7 | 0x80), (uint8_t)(i >> 14 & 0x7f),
				     DW_CFA_nop, DW_CFA_advance_loc | 1 }),
		       6);
	shdr = (Elf64_Shdr *)(big + ((Elf64_Ehdr *)big)->e_shoff);
	shdr[2].sh_offset = size;
	shdr[2].sh_size = w.size + PROGRAM;
	cr_assert_eq(
		kp_unwind_build(big, size + w.size + PROGRAM, "test", &table, &bytes, &stats, &err),
		0);
	cr_assert_leq(stats.rules, 65536);
	cr_assert_gt(stats.rules, 65000);
	cr_assert_gt(stats.cfa_bytes[KP_CFA_INVALID], 0);
}
