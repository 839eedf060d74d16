/*
 * An ELF file in memory, as far as unwinding needs it: where its code is, where the sections with
 * unwind information are, what lies at an address. Everything that it hands out has been checked
 * to lie within the file. No libelf: that would copy, and need section headers where the program
 * headers do.
 */
#pragma once

#include "common/arch/arch.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PT_LOAD segments that are looked at; a linker makes four to ten. */
#define KP_IMAGE_SEGMENT_MAX 64

struct kp_image_segment {
	uint64_t start, end; /* addresses */
	const uint8_t *data; /* what the file has of it, from start on */
	size_t data_size;
	bool executable;
};

struct kp_image {
	const char *name; /* for messages; borrowed, like the bytes */
	const uint8_t *data;
	size_t size;
	const struct kp_arch *arch;
	struct kp_image_segment segment[KP_IMAGE_SEGMENT_MAX];
	uint32_t segment_count;
	uint64_t eh_frame_hdr; /* address; 0: none */
	uint64_t got; /* address that "relative to data" starts from; 0: none */
	uint64_t entry; /* e_entry; 0: none */
	bool is_program; /* a program of its own, for sure: execution begins at entry */
	uint64_t section_at, section_count, section_names; /* headers: offset, number, the names' */
};

/* A piece of the file, and the address at which it is loaded. */
struct kp_image_part {
	const uint8_t *data;
	size_t size;
	uint64_t address;
	bool compressed; /* data begins with an Elf64_Chdr */
};

/* -KP_EBADDATA: not an ELF file for a CPU of ours, or its program headers make no sense. */
int kp_image_open(struct kp_image *ret, const void *data, size_t size, const char *name,
		  struct kp_err *err);

/* The section of that name, if the file has it and its headers and content are there. */
bool kp_image_section(const struct kp_image *image, const char *name, struct kp_image_part *ret);

/*
 * The first executable section from number *at on, whose number goes to *at. False: there is none
 * left. What is compressed or not in the file is none.
 */
bool kp_image_code_section(const struct kp_image *image, uint64_t *at, struct kp_image_part *ret);

/* From address on, what the file has of the segment there. */
bool kp_image_at(const struct kp_image *image, uint64_t address, struct kp_image_part *ret);

/* The executable segment that holds the address, or NULL. */
const struct kp_image_segment *kp_image_code(const struct kp_image *image, uint64_t address);

/*
 * Bytes of code: of executable sections; without sections, of executable segments, which may hold
 * read-only data as well.
 */
uint64_t kp_image_code_bytes(const struct kp_image *image);
